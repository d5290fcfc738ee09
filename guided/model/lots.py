"""Sequences side by side: those of like size are padded and computed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from guided.model.seen_rows import SeenRows

__all__ = ["Lot", "lots_of_like_size"]

_MOST_WASTE = 2
"""A lot may be padded to so many times the work of its smallest sequence."""

_Numbered = tuple[int, SeenRows]
"""Which of the packed tokens is the first of a sequence, and what the sequence sees."""


@dataclass(frozen=True, slots=True, eq=False)
class Lot:
    """Sequences, each padded to the most new tokens and the most rows of any; see ``is_token``.

    Two sequences, of 2 new tokens behind 1 and of 1 behind 1::

        tokens  is_token  slots    sees
        0 1     x x       5 6 7    xx. xxx
        2 _     x .       9 8 _    xx. (padding sees a row, any)
    """

    tokens: NDArray[np.int64]
    """Where each new token stands in the packed row, ``[sequences, new]``."""
    is_token: NDArray[np.bool_]
    """What of ``tokens`` is no padding."""
    slots: NDArray[np.int64]
    """Where the rows lie, ``[sequences, rows]``; padding is some row of the same sequence."""
    sees: NDArray[np.bool_]
    """Who sees which row, ``[sequences, new, rows]``; nobody sees padding."""

    @classmethod
    def of(cls, sequences: Sequence[_Numbered]) -> Lot:
        """These sequences, in their order."""
        count = len(sequences)
        new = max(len(rows.sees) for _, rows in sequences)
        seen = max(len(rows.slots) for _, rows in sequences)
        tokens = np.zeros((count, new), np.int64)
        is_token = np.zeros((count, new), np.bool_)
        slots = np.empty((count, seen), np.int64)
        sees = np.zeros((count, new, seen), np.bool_)
        sees[:, :, 0] = True  # of padding; a query has to see something
        for number, (start, rows) in enumerate(sequences):
            own, length = rows.sees.shape
            tokens[number, :own] = np.arange(start, start + own)
            is_token[number, :own] = True
            slots[number, :length] = rows.slots
            slots[number, length:] = rows.slots[0]
            sees[number, :own, :length] = rows.sees
        return cls(tokens, is_token, slots, sees)


def lots_of_like_size(seen: Sequence[SeenRows]) -> list[Lot]:
    """Sequences, in packed order, in lots that may be padded to the largest of them."""
    starts = np.cumsum([0, *(len(rows.sees) for rows in seen)]).tolist()
    lots: list[list[_Numbered]] = []
    most_new = most_rows = 0
    for each in sorted(zip(starts, seen, strict=False), key=lambda each: -each[1].sees.size):
        new, rows = each[1].sees.shape
        padded = max(most_new, new) * max(most_rows, rows)
        if not lots or padded > _MOST_WASTE * new * rows:
            lots.append([])
            most_new = most_rows = 0
        lots[-1].append(each)
        most_new, most_rows = max(most_new, new), max(most_rows, rows)
    return [Lot.of(sorted(lot, key=lambda each: each[0])) for lot in lots]
