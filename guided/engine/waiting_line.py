"""What waits for a place in the batch, in the order of turns."""

from __future__ import annotations

import bisect
from operator import itemgetter

from guided.engine.work import Waiting

__all__ = ["WaitingLine"]


class WaitingLine:
    """Of equal turns the one that joined first comes first."""

    def __init__(self) -> None:
        self._line: list[tuple[float, Waiting]] = []

    def __len__(self) -> int:
        return len(self._line)

    @property
    def first(self) -> Waiting:
        """Whose turn it is."""
        return self._line[0][1]

    def join(self, waiting: Waiting, turn: float) -> None:
        """Wait at the place of one's turn."""
        bisect.insort(self._line, (turn, waiting), key=itemgetter(0))

    def leave_first(self) -> None:
        """Let the first one go."""
        del self._line[0]

    def leave(self, request_id: str) -> None:
        """Let all of a request wait no more, if any of it does."""
        self._line = [entry for entry in self._line if entry[1].request_id != request_id]
