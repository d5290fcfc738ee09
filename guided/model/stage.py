"""Consecutive layers of a model whose other layers are in other processes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Stage"]


@dataclass(frozen=True, slots=True)
class Stage:
    """What one process computes of a model that is split by its layers.

    ::

        first          last
        embedding
        layers 0…14 ─▶ layers 15…29
                       norm, head
    """

    layers: range
    """Numbers of its layers in the whole model."""
    is_first: bool
    is_last: bool
