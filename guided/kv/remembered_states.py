"""The states of recurrent layers that are kept for beginnings of texts; see docs/recurrent.md."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from guided.kv.recurrence import SequenceState

__all__ = ["RememberedStates"]


class _Place(Protocol):
    """Where a state belongs: a node of the prefix index."""

    state: SequenceState | None


class RememberedStates:
    """A limited number of states; the one used longest ago gives way."""

    __slots__ = ("_most", "_places")

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: OrderedDict[_Place, None] = OrderedDict()
        """The one used longest ago first."""

    def remember(self, place: _Place, state: SequenceState) -> None:
        """Keep a state at its place."""
        place.state = state
        self.use(place)
        while len(self._places) > self._most:
            oldest, _ = self._places.popitem(last=False)
            oldest.state = None

    def use(self, place: _Place) -> None:
        """Mark the state of a place, if it has one, as just used."""
        if place.state is not None:
            self._places[place] = None
            self._places.move_to_end(place)

    def forget(self, place: _Place) -> None:
        """Drop the state of a place."""
        if place.state is not None:
            place.state = None
            del self._places[place]

    def __len__(self) -> int:
        return len(self._places)
