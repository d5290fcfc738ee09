"""The command-line options that the measurements share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["counts", "numbers", "parser_of"]

N = TypeVar("N", int, float)


def parser_of(description: str, *, engines: Sequence[int]) -> argparse.ArgumentParser:
    """Return a parser with the common options; ``engines`` are the default numbers of engines."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--engines", type=counts, default=engines, help="how many: 1,2,4")
    return parser


def counts(text: str) -> tuple[int, ...]:
    """``1,2,4`` -> 1, 2, 4."""
    return _several(text, int, "whole numbers above 0, such as 1,2,4")


def numbers(text: str) -> tuple[float, ...]:
    """``0.7,1.5`` -> 0.7, 1.5."""
    return _several(text, float, "numbers above 0, such as 0.7,1.5")


def _several(text: str, kind: Callable[[str], N], form: str) -> tuple[N, ...]:
    try:
        found = tuple(map(kind, text.split(",")))
    except ValueError:
        found = ()
    if not found or min(found) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form: {form}")
    return found
