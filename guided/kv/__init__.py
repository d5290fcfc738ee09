"""The key/value cache: blocks of slots, their owners, and the memory that they stand for.

A *row* is the keys and values of one position of one sequence, in a group of layers; a *slot* is
where the storage keeps a row.
"""

from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.reservation import Reservation, SlotCopies
from guided.kv.sequence_blocks import SequenceBlocks

__all__ = ["BlockCache", "LayerGroup", "Reservation", "SequenceBlocks", "SlotCopies"]
