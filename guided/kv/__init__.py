"""The key/value cache: blocks of slots, their owners, and the memory that they stand for."""

from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.reservation import Reservation, SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks

__all__ = ["BlockCache", "LayerGroup", "Reservation", "SequenceBlocks", "SlotCopies"]
