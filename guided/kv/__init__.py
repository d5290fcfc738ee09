"""The key/value cache: a bounded pool of slots, and the rows of each sequence."""

from guided.kv.pool import SlotPool
from guided.kv.slots import Reservation, RowMove, SequenceSlots

__all__ = ["Reservation", "RowMove", "SequenceSlots", "SlotPool"]
