"""The key/value cache: blocks of slots, who holds them, and the memory behind them."""

from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.pool import SlotPool
from guided.kv.reservation import SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks
from guided.kv.slots import Reservation, RowMove, SequenceSlots

__all__ = [
    "BlockCache",
    "LayerGroup",
    "Reservation",
    "RowMove",
    "SequenceBlocks",
    "SequenceSlots",
    "SlotCopies",
    "SlotPool",
]
