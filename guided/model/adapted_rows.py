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

    Shared by all matrices that an adapter adds to: a model computes one call at a time.
    """

    def __init__(self) -> None:
        self.by_adapter: Mapping[int, NDArray[np.int64]] = {}
        """The rows of each adapter, by its number, from 1; at least one row each. Rows of the model
        alone are left out."""
        self.count = 0
        """The number of all rows."""
        self._on_device: dict[int, torch.Tensor] | None = None
        """``by_adapter`` on the model's device, once it was needed there."""

    def begin(self, batch: StepBatch) -> None:
        """Describe the rows of another call."""
        numbers = batch.adapters
        self.count = len(numbers)
        self._on_device = None
        self.by_adapter = {
            int(number): np.flatnonzero(numbers == number)
            for number in np.unique(numbers)
            if number
        }

    def on(self, device: torch.device) -> Mapping[int, torch.Tensor]:
        """Return ``by_adapter`` on the device of the model; it is copied there once a call."""
        if self._on_device is None:
            self._on_device = {
                number: torch.from_numpy(rows).to(device)
                for number, rows in self.by_adapter.items()
            }
        return self._on_device
