"""Groups of layers by how far back they see, and the bytes of a token in each group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

__all__ = [
    "NO_KEYS",
    "LayerShape",
    "bytes_per_slot",
    "bytes_per_slot_by_group",
    "window_groups",
]

_SCALE_BYTES = 4


@dataclass(frozen=True, slots=True)
class LayerShape:
    """The sizes of one attention layer's keys and values."""

    heads: int
    key_size: int
    value_size: int

    @property
    def numbers(self) -> int:
        """The numbers kept for a token."""
        return self.heads * (self.key_size + self.value_size)


NO_KEYS = LayerShape(0, 0, 0)
"""A layer that keeps nothing of a token: it is recurrent, or has only a part after attention."""


def window_groups(windows: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return the different windows of layers, the widest first; ``None`` sees everything."""
    every: list[int | None] = [None] if None in windows else []
    return (*every, *sorted({w for w in windows if w is not None}, reverse=True))


def bytes_per_slot(
    layers: Iterable[LayerShape], dtype: torch.dtype, *, is_quantised: bool = False
) -> int:
    """Return the bytes of one token in these layers."""
    if is_quantised:
        return sum(layer.numbers + 2 * layer.heads * _SCALE_BYTES for layer in layers)
    return sum(layer.numbers * dtype.itemsize for layer in layers)


def bytes_per_slot_by_group(
    layers: Sequence[LayerShape],
    windows: Sequence[int | None],
    dtype: torch.dtype,
    *,
    is_quantised: bool,
) -> tuple[int, ...]:
    """Return the bytes of one token in each group of layers, in the order of ``window_groups``.

    ``windows`` has the window of each layer.
    """
    return tuple(
        bytes_per_slot(
            (layer for layer, own in zip(layers, windows, strict=True) if own == window),
            dtype,
            is_quantised=is_quantised,
        )
        for window in window_groups(windows)
    )
