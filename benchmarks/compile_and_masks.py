"""Times of compiling and masking, per schema: `python benchmarks/compile_and_masks.py`.

For each request of the demo, in one process after a warm-up on another schema: compiling, the first
mask, and then every mask of a walk that takes forced runs as they come and chooses at random.
Printed: medians and the slowest, first use and the same walk again.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer

from examples.demo_requests import REQUESTS
from guided.constraint import ConstraintCompiler, Matcher
from guided.spec import Forcing, JsonSchema
from guided.tokens.huggingface import vocabulary_from_tokenizer
from guided.tokens.mask import tokens_of


def walk(start: Matcher, end_ids: frozenset[int], budget: int) -> list[float]:
    """Seconds of each mask on a walk of at most ``budget`` tokens."""
    rng = random.Random(0)
    matcher, times = start, []
    while not matcher.is_complete and budget > 0:
        run = matcher.forced_run(Forcing.CANONICAL)
        for token in run:
            matcher = matcher.advance(token)
        budget -= len(run)
        if matcher.is_complete:
            break
        began = time.perf_counter()
        mask = matcher.mask()
        times.append(time.perf_counter() - began)
        tokens = [token for token in tokens_of(mask).tolist() if token not in end_ids]
        matcher = matcher.advance(rng.choice(tokens))
        budget -= 1
    return times


def main(folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    vocabulary = vocabulary_from_tokenizer(tokenizer, end_ids=[tokenizer.eos_token_id])
    began = time.perf_counter()
    compiler = ConstraintCompiler(vocabulary)
    bound = time.perf_counter() - began
    warm_up = compiler.start(JsonSchema('{"type": "array", "items": {"type": "integer"}}'))
    walk(warm_up, vocabulary.end_ids, 20)

    table = Table(
        "schema", "compile ms", "first mask ms", "mask p50 us", "slowest us", "again p50 us"
    )
    for request in REQUESTS:
        constraint = request.specification.constraint
        assert constraint is not None
        began = time.perf_counter()
        start = compiler.start(constraint)
        compiled = time.perf_counter() - began
        began = time.perf_counter()
        start.mask()
        first = time.perf_counter() - began
        times = walk(start, vocabulary.end_ids, 200)
        again = walk(start, vocabulary.end_ids, 200)
        table.add_row(
            getattr(request.response_model, "__name__", "?"),
            f"{compiled * 1e3:.1f}",
            f"{first * 1e3:.2f}",
            f"{statistics.median(times) * 1e6:.0f}",
            f"{max(times) * 1e6:.0f}",
            f"{statistics.median(again) * 1e6:.1f}",
        )
    console = Console(width=120)
    console.print(f"{folder}: {len(vocabulary)} tokens, bound in {bound:.2f} s")
    console.print(table)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: compile_and_masks.py FOLDER-OR-HUB-ID-OF-A-TOKENIZER")
    main(sys.argv[1])
