"""Measures times of compiling, masks and steps: `python benchmarks/compile_and_masks.py TOKENIZER`.

For schemas of increasing difficulty and those of the demo, in one process after a warm-up on
another schema, it measures compiling, the first mask, and then every mask and every step of a walk
that takes forced runs as they come and chooses at random. Prints medians and the slowest, for first
use and for the same walk again.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer

from examples.demo_requests import REQUESTS
from guided.constraint import ConstraintCompiler, Matcher
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.mask import tokens_of
from guided.spec import Forcing, JsonSchema

_SCHEMAS: dict[str, dict[str, Any]] = {
    "any JSON": {},
    "free names": {"type": "object", "additionalProperties": {"type": "string"}},
    "pattern": {"type": "array", "items": {"type": "string", "pattern": "^[A-Z]{2}-\\d{4,6}$"}},
    "500 choices": {"type": "array", "items": {"enum": [f"choice {n:03}" for n in range(500)]}},
    "unique items": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
    "one of": {
        "oneOf": [
            {
                "properties": {"kind": {"const": kind}, kind: {"type": "number"}},
                "required": ["kind"],
            }
            for kind in ("circle", "square", "line", "point")
        ]
    },
    "recursion": {
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 1, "maxLength": 20},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
                "required": ["name"],
                "unevaluatedProperties": False,
            }
        },
        "$ref": "#/$defs/tree",
    },
}


def walk(start: Matcher, end_ids: frozenset[int], budget: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each mask, and of each step, on a walk of at most ``budget`` tokens."""
    rng = random.Random(0)
    matcher, masks, steps = start, list[float](), list[float]()
    while not matcher.is_complete and budget > 0:
        run = matcher.forced_run(Forcing.CANONICAL)
        for token in run:
            matcher = matcher.advance(token)
        budget -= len(run)
        if matcher.is_complete:
            break
        began = time.perf_counter()
        mask = matcher.mask()
        masks.append(time.perf_counter() - began)
        tokens = [token for token in tokens_of(mask).tolist() if token not in end_ids]
        if not tokens:
            break
        token = rng.choice(tokens)
        began = time.perf_counter()
        matcher = matcher.advance(token)
        steps.append(time.perf_counter() - began)
        budget -= 1
    return masks, steps


def main(folder: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    vocabulary = vocabulary_from_tokenizer(tokenizer, end_ids=[tokenizer.eos_token_id])
    began = time.perf_counter()
    compiler = ConstraintCompiler(vocabulary)
    bound = time.perf_counter() - began
    warm_up = compiler.start(JsonSchema('{"type": "array", "items": {"type": "integer"}}'))
    walk(warm_up, vocabulary.end_ids, 20)

    constraints = {name: JsonSchema(json.dumps(schema)) for name, schema in _SCHEMAS.items()}
    for request in REQUESTS:
        assert request.specification.constraint is not None
        name = getattr(request.response_model, "__name__", "?")
        constraints[name] = request.specification.constraint
    table = Table(
        "schema",
        *("compile ms", "first mask ms", "mask p50 us", "slowest us", "step p50 us"),
        *("again: mask", "step"),
    )
    for name, constraint in constraints.items():
        began = time.perf_counter()
        start = compiler.start(constraint)
        compiled = time.perf_counter() - began
        began = time.perf_counter()
        start.mask()
        first = time.perf_counter() - began
        masks, steps = walk(start, vocabulary.end_ids, 200)
        masks_again, steps_again = walk(start, vocabulary.end_ids, 200)
        table.add_row(
            name,
            f"{compiled * 1e3:.1f}",
            f"{first * 1e3:.2f}",
            f"{statistics.median(masks) * 1e6:.0f}",
            f"{max(masks) * 1e6:.0f}",
            f"{statistics.median(steps) * 1e6:.0f}",
            f"{statistics.median(masks_again) * 1e6:.1f}",
            f"{statistics.median(steps_again) * 1e6:.1f}",
        )
    console = Console(width=120)
    console.print(f"{folder}: {len(vocabulary)} tokens, bound in {bound:.2f} s")
    console.print(table)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: compile_and_masks.py FOLDER-OR-HUB-ID-OF-A-TOKENIZER")
    main(sys.argv[1])
