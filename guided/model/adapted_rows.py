"""Which rows of a model call belong to which LoRA adapter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from guided.model.batch import StepBatch

__all__ = ["AdaptedRows"]


class AdaptedRows:
    """The packed rows of the call that is being computed, by adapter.

    Shared by all that an adapter adds to: a model computes one call at a time.
    """

    def __init__(self) -> None:
        self.by_adapter: Mapping[int, NDArray[np.int64]] = {}
        """By number of the adapter, from 1 on, its rows, one at least. Rows of the model alone are
        not here."""
        self.count = 0
        """All rows."""

    def begin(self, batch: StepBatch) -> None:
        """Let this be about the rows of another call."""
        numbers = batch.adapters
        self.count = len(numbers)
        self.by_adapter = {
            int(number): np.flatnonzero(numbers == number)
            for number in np.unique(numbers)
            if number
        }
