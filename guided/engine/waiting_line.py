"""The requests that wait for a place, in the order of their turns."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from guided.engine.sequence import Sequence

__all__ = ["WaitingLine"]


class WaitingLine:
    """Of equal turns the one that joined first comes first."""

    def __init__(self) -> None:
        self._sequences: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)

    @property
    def first(self) -> Sequence:
        """Whose turn it is."""
        return self._sequences[0]

    def join(self, sequence: Sequence) -> None:
        """Wait at the place of one's turn."""
        bisect.insort(self._sequences, sequence, key=_turn)

    def leave(self, request_id: str) -> None:
        """Wait no more; who does not wait may leave as well."""
        self._sequences = [s for s in self._sequences if s.request_id != request_id]


def _turn(sequence: Sequence) -> float:
    return sequence.urgency.turn
