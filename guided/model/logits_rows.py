"""The logits of a model call as rows of numbers, on whichever device they were computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from guided.spec import TokenId

__all__ = ["LogitsRows"]


class LogitsRows:
    """Rows of logits; those on another device are fetched from there.

    If a token was drawn on the device, its row stays there unless it is read.
    """

    __slots__ = ("_fetched", "_logits", "_whole", "drawn")

    def __init__(self, logits: torch.Tensor, drawn: Sequence[TokenId | None] = ()) -> None:
        """``logits`` are ``[rows, vocabulary]``; ``drawn`` by row, or empty for none."""
        self.drawn = tuple(drawn) or (None,) * len(logits)
        """The token drawn from each row."""
        self._logits = logits
        wanted = [row for row, token in enumerate(self.drawn) if token is None]
        # All at once, because each fetch waits for the device.
        found = self._fetch(wanted)
        self._whole = found if len(wanted) == len(logits) else None
        """All rows, if nothing was drawn."""
        self._fetched: dict[int, NDArray[np.float32]] = {}
        if self._whole is None:
            self._fetched.update(zip(wanted, found, strict=True))

    def __len__(self) -> int:
        return len(self._logits)

    def __getitem__(self, row: int) -> NDArray[np.float32]:
        """Return one row, ``[vocabulary]``."""
        if self._whole is None and row not in self._fetched:
            self._fetched[row] = self._fetch([row])[0]
        found: NDArray[np.float32] = (self._fetched if self._whole is None else self._whole)[row]
        return found

    def part(self, first: int, last: int) -> NDArray[np.float32]:
        """Return the rows from ``first`` up to ``last``, ``[rows, vocabulary]``."""
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
