"""The forward pass: tokens of several sequences in, the logits of some of them out.

One layer, as it is computed; ``*`` is a matrix, and everything between the matrices is float32::

    rows ─┬──────────────────────────────────────────────────────────▶ (+) ─▶ rows
          └▶ norm ▶ *query_key_value ▶ rotary ▶ attention ▶ *output ───┘
    rows ─┬──────────────────────────────────────────────────────────▶ (+) ─▶ rows
          └▶ norm ▶ *gate_and_up ▶ gate ▶ *down ───────────────────────┘

Keys and values go to the cache before attention reads them there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from guided.kv.layer_groups import LayerShape
from guided.model.cpu.attention import CpuAttention, LayerCache
from guided.model.cpu.between_matrices import (
    add_and_normalise,
    normalise,
    normalise_heads,
    rotate_and_store,
)
from guided.model.cpu.embedding import Embedding
from guided.model.cpu.matrix import Numbers, PackedMatrix
from guided.model.visible import VisibleSlots

__all__ = ["Angles", "CpuDecoder", "DecoderWeights", "LayerWeights"]

_KEPT = 2048
"""Positions whose angles are kept. Behind more, a call takes far longer than computing them."""
_Norm = Numbers
"""The factor of each number, after a row was scaled to length 1; ``[hidden]`` or ``[size]``."""
_CosinesAndSines = tuple[Numbers, Numbers]
"""``[tokens, size]`` each."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """One layer, in the order in which it is computed."""

    attention_norm: _Norm
    query_key_value: PackedMatrix
    """Query heads, key heads and value heads, one matrix."""
    head_norms: tuple[_Norm, _Norm] | None
    """The norms of query heads and of key heads."""
    output: PackedMatrix
    after_attention: _Norm | None
    mlp_norm: _Norm
    gate_and_up: PackedMatrix
    """Gates, and what they gate, one matrix."""
    gate: Callable[..., Any]
    down: PackedMatrix
    after_mlp: _Norm | None
    window: int | None
    """The number of positions that a token sees, including its own; ``None`` is all."""
    layer_type: str | None
    """The key of the layer's rotary angles, if they are not the same in all layers."""
    scale: float
    """The factor of scores."""


@dataclass(frozen=True, eq=False)
class Angles:
    """Rotary positions, computed as transformers does; those of the first positions are kept."""

    frequencies: torch.Tensor
    """The angle of each pair of numbers in a head from one position to the next."""
    factor: float
    """The factor of cosines and sines."""

    def at(self, positions: NDArray[np.int64]) -> _CosinesAndSines:
        """Return cosines and sines for each position, ``[tokens, size]`` each."""
        if positions.max() >= _KEPT:
            return self._compute(positions)
        cosines, sines = self._kept
        return cosines[positions], sines[positions]

    @cached_property
    def _kept(self) -> _CosinesAndSines:
        return self._compute(np.arange(_KEPT))

    def _compute(self, positions: NDArray[np.int64]) -> _CosinesAndSines:
        half = torch.from_numpy(positions)[:, None].float() * self.frequencies
        angles = torch.cat((half, half), dim=-1)
        return (angles.cos() * self.factor).numpy(), (angles.sin() * self.factor).numpy()


@dataclass(frozen=True, slots=True, eq=False)
class DecoderWeights:
    """A whole model."""

    embedding: Embedding
    """In the format of the files or the requested one."""
    embedding_scale: float | None
    """The factor of its rows, rounded to their format."""
    angles: Mapping[str | None, Angles]
    """By type of layer."""
    layers: tuple[LayerWeights, ...]
    last_norm: _Norm
    head: PackedMatrix
    epsilon: float
    heads: int
    kv_heads: int
    size: int
    """Numbers in a head."""
    inner: int
    """Gates in an MLP."""


class CpuDecoder:
    """A decoder that computes one call at a time."""

    def __init__(self, weights: DecoderWeights) -> None:
        self._weights = weights
        self._epsilon = np.float32(weights.epsilon)

    @property
    def weights(self) -> DecoderWeights:
        """The weights that it computes with."""
        return self._weights

    @property
    def embedding(self) -> torch.Tensor:
        """The table of token embeddings, ``[vocabulary, hidden]``."""
        return self._weights.embedding.tensor()

    @property
    def dtype(self) -> torch.dtype:
        """The type in which to keep keys and values."""
        return self._weights.embedding.dtype

    @property
    def layers(self) -> tuple[LayerShape, ...]:
        """What each layer keeps of a token."""
        weights = self._weights
        shape = LayerShape(weights.kv_heads, weights.size, weights.size)
        return (shape,) * len(weights.layers)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """How many positions a token sees, including its own, by layer; ``None`` is all."""
        return tuple(layer.window for layer in self._weights.layers)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        matrices = [self._weights.head]
        for layer in self._weights.layers:
            matrices += [layer.query_key_value, layer.output, layer.gate_and_up, layer.down]
        return self._weights.embedding.nbytes + sum(matrix.nbytes for matrix in matrices)

    def forward(
        self,
        tokens: NDArray[np.int64],
        positions: NDArray[np.int64],
        visible: Mapping[int | None, Sequence[VisibleSlots]],
        cache: Sequence[LayerCache],
        logits_rows: Sequence[int],
    ) -> torch.Tensor:
        """Return logits of some packed tokens, float32 ``[rows, vocabulary]``; see ``states``."""
        states, _ = self.states(tokens, positions, visible, cache)
        return self.logits(states[np.asarray(logits_rows, np.int64)])

    @torch.inference_mode()
    def states(
        self,
        tokens: NDArray[np.int64],
        positions: NDArray[np.int64],
        visible: Mapping[int | None, Sequence[VisibleSlots]],
        cache: Sequence[LayerCache],
        taps: Sequence[int] = (),
    ) -> tuple[Numbers, Numbers]:
        """Return the states of the last layer after its norm, ``[tokens, size]``, and the taps.

        The packed row, ``tokens`` at ``positions``, has the new tokens of one sequence after the
        other; ``visible`` has what those of each sequence see by the window of the layers. Keys and
        values are written to ``cache``, by layer. For the layers in ``taps``, the rows that enter
        them are returned side by side, ``[tokens, taps · size]``.
        """
        weights = self._weights
        attention = {
            window: CpuAttention(
                slots, heads=weights.heads, kv_heads=weights.kv_heads, size=weights.size
            )
            for window, slots in visible.items()
        }
        angles = {kind: of_kind.at(positions) for kind, of_kind in weights.angles.items()}
        rows = self._embed(tokens)
        hidden = np.empty_like(rows)
        normalise(rows, weights.layers[0].attention_norm, self._epsilon, hidden)
        nexts = [*(layer.attention_norm for layer in weights.layers[1:]), weights.last_norm]
        tapped = np.empty((len(rows), len(taps), rows.shape[1]), np.float32)
        for number, (layer, its_cache, norm) in enumerate(
            zip(weights.layers, cache, nexts, strict=True)
        ):
            if number in taps:
                tapped[:, taps.index(number)] = rows
            added = self._attend(
                layer, hidden, angles[layer.layer_type], attention[layer.window], its_cache
            )
            self._add(rows, added, layer.after_attention, layer.mlp_norm, hidden)
            self._add(rows, _mlp(layer, hidden), layer.after_mlp, norm, hidden)
        return hidden, tapped.reshape(len(rows), -1)

    @torch.inference_mode()
    def logits(self, states: Numbers) -> torch.Tensor:
        """Compute the head's output for states, ``[rows, vocabulary]``."""
        return torch.from_numpy(self._weights.head.multiply(states))

    def _embed(self, tokens: NDArray[np.int64]) -> Numbers:
        weights = self._weights
        found = weights.embedding.rows(tokens)
        if weights.embedding_scale is not None:
            found = found * torch.tensor(weights.embedding_scale).to(found.dtype)
        rows: Numbers = found.float().numpy()
        return rows

    def _attend(
        self,
        layer: LayerWeights,
        hidden: Numbers,
        angles: _CosinesAndSines,
        attention: CpuAttention,
        cache: LayerCache,
    ) -> Numbers:
        """Return the output of attention, ``[rows, hidden]``; keys and values go into the cache."""
        rows = layer.query_key_value.multiply(hidden)
        if layer.head_norms is not None:
            heads, kv_heads = self._weights.heads, self._weights.kv_heads
            of_queries, of_keys = layer.head_norms
            normalise_heads(rows, 0, heads, of_queries, self._epsilon)
            normalise_heads(rows, heads, kv_heads, of_keys, self._epsilon)
        rotate_and_store(rows, *angles, attention.new_slots, cache.keys, cache.values)
        return layer.output.multiply(attention.attend(rows, cache, layer.scale))

    def _add(
        self,
        rows: Numbers,
        added: Numbers,
        after: _Norm | None,
        norm: _Norm,
        hidden: Numbers,
    ) -> None:
        """Add to the residual rows, and leave the next part's input in ``hidden``."""
        if after is not None:
            normalise(added, after, self._epsilon, added)
        add_and_normalise(rows, added, norm, self._epsilon, hidden)


def _mlp(layer: LayerWeights, hidden: Numbers) -> Numbers:
    rows = layer.gate_and_up.multiply(hidden)
    gated = np.empty((len(rows), rows.shape[1] // 2), np.float32)
    layer.gate(rows, gated)
    return layer.down.multiply(gated)
