"""Measuring what model calls cost here, so that guesses are made only where they pay."""

from __future__ import annotations

import time

from guided.decoding.cost_curve import CostCurve
from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, StepBatch
from guided.model.runner import ModelRunner
from guided.spec import TokenId

__all__ = ["measure_costs"]

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_COMMITTED = 128
"""Rows in the cache before the tokens of a call, as in the middle of an answer."""
_BLOCK_SIZE = 8
_ROUNDS = 3
_PATIENCE = 2.0
"""Seconds after which no further round begins."""


def measure_costs(runner: ModelRunner, context_window: int) -> CostCurve:
    """Time model calls of several sizes; takes two dozen calls, fewer where they are slow.

    The least of several times counts: whatever else runs on the machine only adds to it.
    """
    committed = min(_COMMITTED, context_window // 2)
    sizes = [size for size in _SIZES if size <= context_window - committed]
    blocks = -(-(committed + sizes[-1]) // _BLOCK_SIZE)
    groups = [LayerGroup(blocks, window) for window in runner.windows]
    cache = BlockCache(groups, _BLOCK_SIZE, reuse_prefixes=False)
    runner.open_storages([pool.num_slots for pool in cache.pools])
    sequence = cache.open()
    runner.forward(StepBatch((_chain(sequence, committed),)))
    sequence.commit(range(committed), [TokenId(0)] * committed)
    seconds = dict.fromkeys(sizes, float("inf"))
    begun = time.perf_counter()
    for _ in range(_ROUNDS):
        if time.perf_counter() - begun > _PATIENCE:
            break
        for size in sizes:
            batch = StepBatch((_chain(sequence, size),))
            started = time.perf_counter()
            runner.forward(batch)
            seconds[size] = min(seconds[size], time.perf_counter() - started)
            sequence.commit((), ())
    return CostCurve.through(seconds)


def _chain(sequence: SequenceBlocks, size: int) -> Segment:
    """``size`` tokens in a row, and a choice behind each, as in a draft."""
    return Segment(
        committed=sequence.committed,
        rows=sequence.reserve(size),
        tokens=(TokenId(0),) * size,
        depths=tuple(range(size)),
        ancestors=None,
        deciding=tuple(range(size)),
    )
