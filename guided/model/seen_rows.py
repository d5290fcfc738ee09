"""What the new tokens of one sequence see of the cache."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["SeenRows"]


class SeenRows:
    """The rows of one sequence in one group of layers; every new token sees itself at least."""

    __slots__ = ("sees", "slots")

    def __init__(self, slots: NDArray[np.int64], sees: NDArray[np.bool_]) -> None:
        self.slots = slots
        """Where the rows lie, ``[rows]``: those of earlier tokens, then those of the new ones."""
        self.sees = sees
        """Which of them each new token sees, ``[new, rows]``."""

    @property
    def new_slots(self) -> NDArray[np.int64]:
        """Where the keys and values of the new tokens go, ``[new]``."""
        return self.slots[len(self.slots) - len(self.sees) :]
