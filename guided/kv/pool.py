"""The bound on the key/value cache: how many slots there are, and who holds them."""

from __future__ import annotations

from guided.errors import OutOfMemoryError
from guided.kv.slots import SequenceSlots

__all__ = ["SlotPool"]


class SlotPool:
    """A fixed number of token slots, handed to sequences when they are admitted.

    It counts and never touches a tensor. free + held = total, always.
    """

    def __init__(self, total: int) -> None:
        assert total > 0, f"a pool of {total} slots"
        self._total = total
        self._free = total
        self._held: dict[int, SequenceSlots] = {}

    @property
    def total(self) -> int:
        """Slots in all."""
        return self._total

    @property
    def free(self) -> int:
        """Slots that no sequence holds."""
        return self._free

    def open(self, capacity: int) -> SequenceSlots:
        """Hand ``capacity`` slots to a new sequence."""
        if capacity > self._free:
            raise OutOfMemoryError(
                f"{capacity} slots were asked for, but only {self._free} of {self._total} are free"
            )
        slots = SequenceSlots(capacity)
        self._free -= capacity
        self._held[id(slots)] = slots
        return slots

    def release(self, slots: SequenceSlots) -> None:
        """Take back all slots of a sequence; it must not be used any more."""
        assert id(slots) in self._held, "these slots are not held, or were released before"
        del self._held[id(slots)]
        self._free += slots.capacity

    def check(self) -> None:
        """Raise unless free + held = total and every sequence's own rows add up."""
        held = sum(slots.capacity for slots in self._held.values())
        assert self._free >= 0, f"{self._free} slots free"
        assert self._free + held == self._total, (
            f"{self._free} free + {held} held != {self._total} slots"
        )
        for slots in self._held.values():
            slots.check()
