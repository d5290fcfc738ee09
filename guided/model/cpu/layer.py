"""The weights of one layer, and those around the layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from guided.model.cpu.linear import Linear, Numbers

__all__ = ["DecoderWeights", "LayerWeights"]

Norm = Numbers
"""What each number is multiplied by once a row has length 1, ``[hidden]`` or ``[size]``."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """One layer, in the order in which it is computed."""

    attention_norm: Norm
    mixed: Linear
    """Query heads, key heads and value heads, one matrix."""
    head_norms: tuple[Norm, Norm] | None
    """Of query heads and of key heads."""
    output: Linear
    after_attention: Norm | None
    mlp_norm: Norm
    both: Linear
    """Gates, and what they let through, one matrix."""
    gate: Callable[..., Any]
    down: Linear
    after_mlp: Norm | None
    window: int | None
    """Positions that a token sees, its own among them; ``None`` is all."""
    kind: str | None
    """By what the layer's rotary angles are known, where they are not the same in all layers."""
    scale: float
    """What scores are multiplied by."""


@dataclass(frozen=True, slots=True, eq=False)
class DecoderWeights:
    """A whole model."""

    embed: torch.nn.Module
    """Token numbers to rows, ``[tokens]`` → ``[tokens, hidden]``."""
    angles: torch.nn.Module
    """The rotary embedding, as transformers has it."""
    layers: tuple[LayerWeights, ...]
    last_norm: Norm
    head: Linear
    epsilon: float
    heads: int
    kv_heads: int
    size: int
    """Numbers in a head."""
