"""Maps what LoRA adapters add onto the matrices of our own decoder.

Adapters name the matrices that a model has by its config; several of them are one here::

    q_proj, k_proj, v_proj ─▶ query_key_value     o_proj ─▶ output
    gate_proj, up_proj ─────▶ gate_and_up         down_proj ─▶ down
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import torch

from guided.model.adapted_rows import AdaptedRows
from guided.model.adapter import Adapter, check_shape, no_matrix
from guided.model.cpu.decoder import DecoderWeights
from guided.model.cpu.formats import WeightFormat, matrix_packer
from guided.model.cpu.matrix import Numbers, PackedMatrix

__all__ = ["adapt_weights"]

_STACKED: Final = {
    "query_key_value": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": ("self_attn.o_proj",),
    "gate_and_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
_IN_MATRIX: Final = {
    part: (matrix, parts[:place])
    for matrix, parts in _STACKED.items()
    for place, part in enumerate(parts)
}
"""For each part of a layer, the matrix that contains it, and the parts above it there."""
_OF_LAYER: Final = re.compile(r"model\.layers\.(\d+)\.(.+)")


class _Addition(NamedTuple):
    """What an adapter adds to some outputs of a matrix, see ``LowRank``."""

    first: int
    """The first of these outputs."""
    outputs: int
    down: PackedMatrix
    up: PackedMatrix
    scale: float


class _AdaptedMatrix:
    """A matrix, and what adapters add to it.

    Neither a row's product nor the addition to it depends on other rows: so it is the same to the
    last bit whatever rows of this or other adapters stand beside it.
    """

    def __init__(
        self,
        matrix: PackedMatrix,
        additions: Mapping[int, Sequence[_Addition]],
        rows: AdaptedRows,
    ) -> None:
        """``additions`` are by the number of the adapter, ``rows`` those of the running call."""
        self._matrix = matrix
        self._additions = additions
        self._rows = rows
        self.nbytes = matrix.nbytes + sum(
            each.down.nbytes + each.up.nbytes for some in additions.values() for each in some
        )

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``."""
        product = self._matrix.multiply(rows)
        for adapter, its_rows in self._rows.by_adapter.items():
            for first, outputs, down, up, scale in self._additions.get(adapter, ()):
                inner = down.multiply(np.ascontiguousarray(rows[its_rows]))
                inner *= np.float32(scale)
                product[its_rows, first : first + outputs] += up.multiply(inner)
        return product


def adapt_weights(
    weights: DecoderWeights, adapters: Sequence[Adapter], rows: AdaptedRows
) -> DecoderWeights:
    """Add adapters to the weights; they are numbered from 1 in their order.

    Raises ModelError for an adapter of a matrix that the model does not have, or has in another
    size.
    """
    shapes = _shapes(weights)
    additions: dict[tuple[int, str], dict[int, list[_Addition]]] = {}
    is_plain = weights.embedding.dtype == torch.float32
    pack = matrix_packer(WeightFormat.FP32 if is_plain else WeightFormat.BF16)
    for number, adapter in enumerate(adapters, 1):
        for name, low_rank in adapter.matrices.items():
            layer, part = _place(name, adapter, len(weights.layers))
            check_shape(adapter, name, low_rank, shapes[part])
            matrix, before = _IN_MATRIX[part]
            first = sum(shapes[each][0] for each in before)
            down, up = pack(low_rank.down, None), pack(low_rank.up, None)
            addition = _Addition(first, shapes[part][0], down, up, low_rank.scale)
            additions.setdefault((layer, matrix), {}).setdefault(number, []).append(addition)

    def adapt(number: int, matrix: str, plain: PackedMatrix) -> PackedMatrix:
        by_adapter = additions.get((number, matrix))
        return plain if by_adapter is None else _AdaptedMatrix(plain, by_adapter, rows)

    layers = [
        replace(
            layer,
            query_key_value=adapt(number, "query_key_value", layer.query_key_value),
            output=adapt(number, "output", layer.output),
            gate_and_up=adapt(number, "gate_and_up", layer.gate_and_up),
            down=adapt(number, "down", layer.down),
        )
        for number, layer in enumerate(weights.layers)
    ]
    return replace(weights, layers=tuple(layers))


def _place(name: str, adapter: Adapter, num_layers: int) -> tuple[int, str]:
    """Return the layer, and the part of it, that an adapter's matrix name stands for."""
    found = _OF_LAYER.fullmatch(name)
    if found is None or int(found[1]) >= num_layers or found[2] not in _IN_MATRIX:
        raise no_matrix(adapter, name)
    return int(found[1]), found[2]


def _shapes(weights: DecoderWeights) -> dict[str, tuple[int, int]]:
    """Return outputs and inputs of each part of a layer."""
    hidden, inner = len(weights.last_norm), weights.inner
    queries, keys = weights.heads * weights.size, weights.kv_heads * weights.size
    return {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
