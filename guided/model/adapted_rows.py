"""Which rows of a model call belong to which LoRA adapter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
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
        self._on_device: dict[int, torch.Tensor] | None = None
        """Those of ``by_adapter`` where the model computes, once they were asked for there."""

    def begin(self, batch: StepBatch) -> None:
        """Let this be about the rows of another call."""
        numbers = batch.adapters
        self.count = len(numbers)
        self._on_device = None
        self.by_adapter = {
            int(number): np.flatnonzero(numbers == number)
            for number in np.unique(numbers)
            if number
        }

    def on(self, device: torch.device) -> Mapping[int, torch.Tensor]:
        """``by_adapter`` on the device of the model: it is copied there once a call."""
        if self._on_device is None:
            self._on_device = {
                number: torch.from_numpy(rows).to(device)
                for number, rows in self.by_adapter.items()
            }
        return self._on_device
