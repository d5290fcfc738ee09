"""Shows what cutting a text into calls changes: `python benchmarks/call_cuts.py [MODEL]`.

The first 400 tokens of a fixed text are fed to our own forward pass, the last 336 of them in calls
of a number of tokens, or one by one. Prints how far the logits are from those of one by one, and
how many of the likeliest tokens differ.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.bare_models import Ours, open_ours
from guided.model.cpu import WeightFormat
from guided.model.load import load_model

_TEXT = Path(__file__).parent / "perplexity_text.txt"
_TOKENS, _FIRST = 400, 64
_CUTS = (2, 8, 9, 16, 48, 336)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    name: str | None = parser.parse_args().model
    text = load_model(name).tokenizer.encode(_TEXT.read_text())[:_TOKENS]
    table = Table("weights", *(f"calls of {cut}" for cut in _CUTS))
    for weight_format in WeightFormat:
        model = open_ours(name, weight_format, slots=_TOKENS)
        one_by_one = logits(model, text, 1)
        found = (compared(logits(model, text, cut), one_by_one) for cut in _CUTS)
        table.add_row(weight_format, *found)
    Console(width=120).print(table)


def logits(model: Ours, text: list[int], cut: int) -> torch.Tensor:
    """Return the logits of the tokens after the first call."""
    growing = model.open()
    growing.extend(text[:_FIRST])
    starts = range(_FIRST, len(text), cut)
    return torch.cat([growing.extend(text[start : start + cut]) for start in starts])


def compared(found: torch.Tensor, expected: torch.Tensor) -> str:
    off = float((found - expected).norm() / expected.norm())
    others = int((found.argmax(1) != expected.argmax(1)).sum())
    return f"{off:.2%}, {others}"


if __name__ == "__main__":
    main()
