"""What the new tokens of one sequence see of the cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SeenRows"]


@dataclass(frozen=True, slots=True, eq=False)
class SeenRows:
    """The rows of one sequence in one group of layers; every new token sees itself at least."""

    slots: NDArray[np.int64]
    """Where the rows lie, ``[rows]``: those of earlier tokens, then those of the new ones."""
    sees: NDArray[np.bool_]
    """Which of them each new token sees, ``[new, rows]``."""

    @property
    def new_slots(self) -> NDArray[np.int64]:
        """Where the keys and values of the new tokens go, ``[new]``."""
        return self.slots[len(self.slots) - len(self.sees) :]
