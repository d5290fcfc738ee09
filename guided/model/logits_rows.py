"""The logits of a model call as rows of numbers, wherever the model computed them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from guided.spec import TokenId

__all__ = ["LogitsRows"]


class LogitsRows:
    """Rows of logits; those of another device are fetched from there.

    Where a token was drawn on the device, its row stays there unless somebody reads it.
    """

    __slots__ = ("_fetched", "_logits", "_whole", "drawn")

    def __init__(self, logits: torch.Tensor, drawn: Sequence[TokenId | None] = ()) -> None:
        """``logits`` are ``[rows, vocabulary]``; ``drawn`` by row, or none for all."""
        self.drawn = tuple(drawn) or (None,) * len(logits)
        """What was drawn of each row."""
        self._logits = logits
        wanted = [row for row, token in enumerate(self.drawn) if token is None]
        # All at once, as each fetch waits for the device.
        found = self._fetch(wanted)
        self._whole = found if len(wanted) == len(logits) else None
        """All rows, where nothing was drawn."""
        self._fetched: dict[int, NDArray[np.float32]] = {}
        if self._whole is None:
            self._fetched.update(zip(wanted, found, strict=True))

    def __len__(self) -> int:
        return len(self._logits)

    def __getitem__(self, row: int) -> NDArray[np.float32]:
        """One row, ``[vocabulary]``."""
        if self._whole is None and row not in self._fetched:
            self._fetched[row] = self._fetch([row])[0]
        found: NDArray[np.float32] = (self._fetched if self._whole is None else self._whole)[row]
        return found

    def part(self, first: int, last: int) -> NDArray[np.float32]:
        """The rows from ``first`` up to ``last``, ``[rows, vocabulary]``."""
        if self._whole is not None:
            return self._whole[first:last]
        rows = [self[row] for row in range(first, last)]
        return np.stack(rows) if rows else np.empty((0, self._logits.shape[1]), np.float32)

    def _fetch(self, rows: Sequence[int]) -> NDArray[np.float32]:
        if not rows:
            return np.empty((0, self._logits.shape[1]), np.float32)
        whole = len(rows) == len(self._logits)
        wanted = self._logits if whole else self._logits[list(rows)]
        found: NDArray[np.float32] = wanted.float().cpu().numpy()
        return found
