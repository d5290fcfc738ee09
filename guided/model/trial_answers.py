"""Where the answers of two ways to call a model differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from guided.model.trial import FIRST, SHARED, Own

__all__ = ["Difference", "first_difference", "rounding", "tolerance"]

_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3}
"""Parts of a model are computed in float32 whatever its weights are."""
_HALF = 5e-2
"""Sums of 16-bit numbers that are taken in another order differ by up to a hundredth."""
_OF_ROUNDING = 3.0
"""Two ways to compute differ from a third by about as much as from each other."""
_MOST = 0.25
"""A larger difference tells of something else than rounding."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of the trial that came out otherwise."""

    where: str
    size: float
    """The norm of what the logits of a token differ by, over the norm of those that are right."""


def tolerance(dtype: torch.dtype) -> float:
    """By which share what was computed in another way may differ."""
    return _TOLERANCE.get(dtype, _HALF)


def rounding(own: Own, other: Own) -> float:
    """By how much two ways differ in which a model itself computes the same."""
    return max(float(_sizes(right, found).median()) for _, right, found in _parts(own, other, None))


def first_difference(
    own: Own, ours: Own, window: int | None, *, rounding: float = 0.0
) -> Difference | None:
    """The first part of the trial, from what is most basic on, that differs.

    With 16-bit weights a token may be sent to other experts by a rounding error, so the median of
    a part counts then, and else its largest difference. ``rounding`` is what such weights make of
    rounding errors, where that was measured: the wider and deeper a model is, the more.
    """
    bound = max(tolerance(own.main.dtype), min(_OF_ROUNDING * rounding, _MOST))
    for where, right, found in _parts(own, ours, window):
        sizes = _sizes(right, found)
        size = float(sizes.max() if own.main.dtype in _TOLERANCE else sizes.median())
        if not size < bound:
            return Difference(where, size)
    return None


def _parts(
    own: Own, ours: Own, window: int | None
) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """What to compare, the most basic parts first: what a part shows, rows of either way."""
    inside = FIRST if window is None else window

    def rows(first: int, last: int) -> tuple[torch.Tensor, torch.Tensor]:
        return own.main[first:last], ours.main[first:last]

    yield "at the beginning of a text", *rows(0, inside)
    if window is not None:
        yield "beyond its sliding window", *rows(inside, FIRST)
    yield "where another text is in the same call", own.beside, ours.beside
    yield "where a text is cut into calls", *rows(FIRST, SHARED)
    tree = torch.cat([own.main[SHARED:], own.side]), torch.cat([ours.main[SHARED:], ours.side])
    yield "in a tree of guesses", *tree


def _sizes(right: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """How much the logits of each token differ, as a share of the norm of the right ones.

    A constant that is added to all logits of a token changes nothing, and does not count.
    """
    # Logits that are never chosen may be minus infinity on both sides.
    is_finite = right.isfinite()
    difference = torch.where(right == found, 0, found.double() - right.double())
    plain = torch.where(is_finite, right.double(), 0)
    mean = plain.sum(1, keepdim=True) / is_finite.sum(1, keepdim=True)
    spread = torch.where(is_finite, plain - mean, 0)
    shift = difference.mean(1, keepdim=True)
    sizes: torch.Tensor = (difference - shift).norm(dim=1) / spread.norm(dim=1)
    return sizes
