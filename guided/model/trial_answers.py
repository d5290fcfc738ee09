"""Finds where the answers of two ways to call a model differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from guided.model.trial import FIRST, SHARED, Own

__all__ = ["Difference", "first_difference", "rounding", "tolerance"]

_TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3}
"""Parts of a model are computed in float32 whatever the type of its weights."""
_HALF = 5e-2
"""Sums of 16-bit numbers in another order differ by up to a hundredth."""
_OF_ROUNDING = 3.0
"""Two ways to compute differ from a third by about as much as from each other."""
_MOST = 0.25
"""A larger difference has another cause than rounding."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of the trial that came out differently."""

    where: str
    size: float
    """The norm of the difference of a token's logits, relative to that of the right ones."""


def tolerance(dtype: torch.dtype) -> float:
    """Return the relative difference that another way of computing may cause."""
    return _TOLERANCE.get(dtype, _HALF)


def rounding(own: Own, other: Own) -> float:
    """Return how much two of a model's own ways to compute the same differ."""
    return max(float(_sizes(right, found).median()) for _, right, found in _parts(own, other, None))


def first_difference(
    own: Own, ours: Own, window: int | None, *, rounding: float = 0.0
) -> Difference | None:
    """Return the first part of the trial that differs, the most basic parts first.

    With 16-bit weights a rounding error may send a token to other experts, so then the median of a
    part counts, and otherwise its largest difference. ``rounding`` is the measured effect of
    rounding on such weights, if known: it grows with the width and depth of a model.
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
    """Yield what to compare, the most basic parts first: what a part shows, rows of both ways."""
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
    """Return how much the logits of each token differ, relative to the norm of the right ones.

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
