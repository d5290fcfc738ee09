"""Layers by how far back they see, and what a token takes in each group of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from guided.kv.layer_shape import LayerShape
from guided.kv.paged_storage import bytes_per_slot

__all__ = ["slot_bytes", "window_groups"]


def window_groups(windows: Sequence[int | None]) -> tuple[int | None, ...]:
    """The different windows of layers, the widest first; ``None`` is all."""
    every: list[int | None] = [None] if None in windows else []
    return (*every, *sorted({w for w in windows if w is not None}, reverse=True))


def slot_bytes(
    layers: Sequence[LayerShape],
    windows: Sequence[int | None],
    dtype: torch.dtype,
    *,
    is_quantised: bool,
) -> tuple[int, ...]:
    """Memory that one token takes in each group of layers."""
    return tuple(
        bytes_per_slot(
            (layer for layer, own in zip(layers, windows, strict=True) if own == window),
            dtype,
            is_quantised=is_quantised,
        )
        for window in window_groups(windows)
    )
