"""Matrices to which LoRA adapters add, each to its own rows of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from guided.model.adapted_rows import AdaptedRows
from guided.model.cpu.matrix import Numbers, PackedMatrix

__all__ = ["AdaptedMatrix", "Addition"]


class Addition(NamedTuple):
    """What an adapter adds to some outputs of a matrix, see ``LowRank``."""

    first: int
    """The first of these outputs."""
    outputs: int
    down: PackedMatrix
    up: PackedMatrix
    scale: float


class AdaptedMatrix:
    """A matrix, and what adapters add to it.

    Neither a row's product nor the addition to it depends on other rows: so it is the same to the
    last bit whatever rows of this or other adapters stand beside it.
    """

    def __init__(
        self,
        matrix: PackedMatrix,
        additions: Mapping[int, Sequence[Addition]],
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
