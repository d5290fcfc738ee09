"""Measures how well a model's first layers draft for it: `python benchmarks/early_exit.py [MODEL]`.

Along its own greedy answers to requests of the workload, in fp32, the state after some layers goes
through the last norm and the matrix over the vocabulary, as in early exit, and the likeliest legal
token is compared with the one that the whole model chose. Forced tokens need no drafter and do not
count. ``drafts`` is the mean number of right tokens in a chain of four, if each is right as often
as the first; ``weights`` is the share of the model's weights that a drafted token reads, and
``cost`` what a token of the answer reads with such chains, relative to no drafting.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.quality import Led, answered
from guided.bench.workload import read_workload
from guided.constraint import ConstraintCompiler
from guided.masks.mask import tokens_of
from guided.model.load import load_model
from guided.spec import Forcing, TokenId

CHAIN: Final = 4


def main() -> None:
    parser = argparse.ArgumentParser(description="What early exit would draft.")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--every", type=int, default=1, help="of so many requests one is taken")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    requests = [*read_workload().items()][:: options.every]
    loaded = load_model(options.model, dtype=torch.float32)
    compiler = ConstraintCompiler(loaded.vocabulary)
    rights: list[list[bool]] = []
    for led in answered(options.model, dict(requests)):
        rights += agreeing(loaded.module, led, compiler)
    print_table(loaded.module, torch.tensor(rights).float().mean(0).tolist(), len(rights))


@torch.inference_mode()
def agreeing(model: Any, led: Led, compiler: ConstraintCompiler) -> Iterator[list[bool]]:
    """Yield for each chosen token whether each layer's exit predicts it."""
    output = model(torch.tensor([[*led.prompt, *led.answer]]), output_hidden_states=True)
    norm, head = model.get_decoder().norm, model.get_output_embeddings()
    # The norm was already applied to the last one.
    exits = [*map(norm, output.hidden_states[1:-1]), output.hidden_states[-1]]
    for place, legal in choices(led, compiler):
        states = torch.stack([state[0, len(led.prompt) - 1 + place] for state in exits])
        said = legal[head(states)[:, legal].argmax(1)]
        yield (said == led.answer[place]).tolist()


def choices(led: Led, compiler: ConstraintCompiler) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the places of an answer where a token is chosen, with the legal tokens."""
    matcher, forced = compiler.start(led.constraint), list[TokenId]()
    for place, token in enumerate(led.answer):
        forced = forced or list(matcher.forced_run(Forcing.CANONICAL))
        if not forced:
            yield place, torch.from_numpy(tokens_of(matcher.mask()).astype("int64"))
        matcher = matcher.advance(token)
        forced = forced[1:]


def print_table(model: Any, shares: Sequence[float], count: int) -> None:
    matrix = model.get_output_embeddings().weight.numel()
    whole = matrix + sum(weight.numel() for weight in model.get_decoder().layers.parameters())
    table = Table("layers", "right", "drafts", "weights", "cost", title=f"{count} chosen tokens")
    for layers, right in enumerate(shares, start=1):
        read = matrix + (whole - matrix) * layers / len(shares)
        accepted = sum(right**depth for depth in range(1, CHAIN + 1))
        cost = (whole + CHAIN * read) / whole / (1 + accepted)
        cells = (right, accepted, read / whole, cost)
        table.add_row(str(layers), *(f"{cell:.3f}" for cell in cells))
    Console(width=80).print(table)


if __name__ == "__main__":
    main()
