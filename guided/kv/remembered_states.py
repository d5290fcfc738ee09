"""The states of recurrent layers that are kept for beginnings of texts; see docs/recurrent.md."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from guided.kv.recurrence import SequenceState

__all__ = ["RememberedStates"]


class _StateHolder(Protocol):
    """What a state is kept at: a node of the prefix index."""

    state: SequenceState | None


class RememberedStates:
    """A limited number of states; the one used longest ago gives way."""

    __slots__ = ("_capacity", "_holders")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._holders: OrderedDict[_StateHolder, None] = OrderedDict()
        """The one used longest ago first."""

    def remember(self, holder: _StateHolder, state: SequenceState) -> None:
        """Keep a state at a node."""
        holder.state = state
        self.use(holder)
        while len(self._holders) > self._capacity:
            oldest, _ = self._holders.popitem(last=False)
            oldest.state = None

    def use(self, holder: _StateHolder) -> None:
        """Mark the state of a node, if it has one, as just used."""
        if holder.state is not None:
            self._holders[holder] = None
            self._holders.move_to_end(holder)

    def forget(self, holder: _StateHolder) -> None:
        """Drop the state of a node."""
        if holder.state is not None:
            holder.state = None
            del self._holders[holder]

    def __len__(self) -> int:
        return len(self._holders)
