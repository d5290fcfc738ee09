"""The forward pass: tokens of several sequences in, the logits of some of them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.cpu.attention import Attention
from guided.model.cpu.layer import DecoderWeights, LayerWeights
from guided.model.cpu.layer_cache import LayerCache
from guided.model.cpu.linear import Numbers
from guided.model.cpu.norm import add_and_normalise, normalise, normalise_heads
from guided.model.cpu.rotary import rotate_and_store
from guided.model.seen_rows import SeenRows

__all__ = ["CpuDecoder"]

_Angles = tuple[Numbers, Numbers]
"""Cosines and sines, ``[tokens, size]`` each."""


class CpuDecoder:
    """A decoder behind one call; between its matrices everything is float32."""

    def __init__(self, weights: DecoderWeights) -> None:
        self._weights = weights
        self._epsilon = np.float32(weights.epsilon)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """By layer, how many positions a token sees, its own among them; ``None`` is all."""
        return tuple(layer.window for layer in self._weights.layers)

    @property
    def nbytes(self) -> int:
        """Memory that the weights take."""
        matrices = [self._weights.head]
        for layer in self._weights.layers:
            matrices += [layer.mixed, layer.output, layer.both, layer.down]
        embedding = sum(parameter.nbytes for parameter in self._weights.embed.parameters())
        return embedding + sum(matrix.nbytes for matrix in matrices)

    @torch.inference_mode()
    def forward(
        self,
        tokens: NDArray[np.int64],
        positions: NDArray[np.int64],
        seen: Mapping[int | None, Sequence[SeenRows]],
        cache: Sequence[LayerCache],
        logits_rows: Sequence[int],
    ) -> torch.Tensor:
        """The logits of some packed tokens, float32 ``[rows, vocabulary]``; see ``states``."""
        return self.logits(
            self.states(tokens, positions, seen, cache)[np.asarray(logits_rows, np.int64)]
        )

    @torch.inference_mode()
    def states(
        self,
        tokens: NDArray[np.int64],
        positions: NDArray[np.int64],
        seen: Mapping[int | None, Sequence[SeenRows]],
        cache: Sequence[LayerCache],
    ) -> Numbers:
        """The states of the last layer behind its norm, ``[tokens, size]``.

        The packed row, ``tokens`` at ``positions``, has the new tokens of one sequence after the
        other; ``seen`` has the rows of each sequence by the window of the layers. Keys and values
        are written to ``cache``, by layer.
        """
        weights = self._weights
        attention = {
            window: Attention(
                rows, heads=weights.heads, kv_heads=weights.kv_heads, size=weights.size
            )
            for window, rows in seen.items()
        }
        angles = self._angles(positions)
        rows = self._embed(tokens)
        hidden = np.empty_like(rows)
        normalise(rows, weights.layers[0].attention_norm, self._epsilon, hidden)
        nexts = [*(layer.attention_norm for layer in weights.layers[1:]), weights.last_norm]
        for layer, its_cache, norm in zip(weights.layers, cache, nexts, strict=True):
            added = self._attend(
                layer, hidden, angles[layer.kind], attention[layer.window], its_cache
            )
            self._add(rows, added, layer.after_attention, layer.mlp_norm, hidden)
            self._add(rows, _mlp(layer, hidden), layer.after_mlp, norm, hidden)
        return hidden

    @torch.inference_mode()
    def logits(self, states: Numbers) -> torch.Tensor:
        """What the head says to states, ``[rows, vocabulary]``."""
        return torch.from_numpy(self._weights.head(states))

    def _embed(self, tokens: NDArray[np.int64]) -> Numbers:
        embedded: torch.Tensor = self._weights.embed(torch.from_numpy(tokens))
        rows: Numbers = embedded.float().numpy()
        return rows

    def _angles(self, positions: NDArray[np.int64]) -> dict[str | None, _Angles]:
        """By kind of layer."""
        kinds = {layer.kind for layer in self._weights.layers}
        told = torch.from_numpy(positions)[None]
        like = torch.empty(0, dtype=torch.float32)
        found = {}
        for kind in kinds:
            named = () if kind is None else (kind,)
            cosines, sines = self._weights.angles(like, told, *named)  # [1, tokens, size]
            found[kind] = (cosines[0].numpy(), sines[0].numpy())
        return found

    def _attend(
        self,
        layer: LayerWeights,
        hidden: Numbers,
        angles: _Angles,
        attention: Attention,
        cache: LayerCache,
    ) -> Numbers:
        mixed = layer.mixed(hidden)
        if layer.head_norms is not None:
            heads, kv_heads = self._weights.heads, self._weights.kv_heads
            of_queries, of_keys = layer.head_norms
            normalise_heads(mixed, 0, heads, of_queries, self._epsilon)
            normalise_heads(mixed, heads, kv_heads, of_keys, self._epsilon)
        slots = attention.new_slots
        rotate_and_store(mixed, *angles, slots, cache.key_numbers, cache.value_numbers)
        return layer.output(attention.attend(mixed, cache, layer.scale))

    def _add(
        self, rows: Numbers, added: Numbers, after: Numbers | None, norm: Numbers, hidden: Numbers
    ) -> None:
        """Add to the residual rows, and leave in ``hidden`` what the next part reads."""
        if after is not None:
            normalise(added, after, self._epsilon, added)
        add_and_normalise(rows, added, norm, self._epsilon, hidden)


def _mlp(layer: LayerWeights, hidden: Numbers) -> Numbers:
    both = layer.both(hidden)
    gated = np.empty((len(both), both.shape[1] // 2), np.float32)
    layer.gate(both, gated)
    return layer.down(gated)
