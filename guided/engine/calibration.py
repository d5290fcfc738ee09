"""Measuring what model calls cost here, so that guesses are made only where they pay."""

from __future__ import annotations

import time
from collections.abc import Mapping

from guided.decoding.cost_curve import CostCurve
from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, StepBatch
from guided.model.runner import ModelRunner
from guided.spec import TokenId

__all__ = ["call_sizes", "measure_costs", "measure_seconds"]

_SIZES = (1, 2, 4, 8, 9, 12, 16, 24, 32, 64, 128)
"""Close together where a wider call is made by other kernels, see ``guided.model.cpu``."""
_COMMITTED = 128
"""Rows in the cache before the tokens of a call, as in the middle of an answer."""
_BLOCK_SIZE = 8
_ROUNDS = 3
"""Rounds at least, where they take no more than our patience."""
_NEWS = 0.98
"""A time below this share of the least so far says that the least is not known yet."""
_REFINED = 32
"""Tokens of the widest call that is timed again where times are known: most calls are narrower."""
_PATIENCE = 2.0
"""Seconds after which no further round begins."""


def call_sizes(context_window: int) -> list[int]:
    """The sizes that are timed, which leave room for what is committed before them."""
    return [size for size in _SIZES if size <= context_window - _committed(context_window)]


def measure_costs(runner: ModelRunner, context_window: int) -> CostCurve:
    """The curve through ``measure_seconds``."""
    return CostCurve.through(measure_seconds(runner, context_window))


def measure_seconds(
    runner: ModelRunner, context_window: int, known: Mapping[int, float] | None = None
) -> dict[int, float]:
    """Time model calls of several sizes; takes some dozen calls, fewer where they are slow.

    The least time of each size counts, as whatever else runs on the machine only adds to it. A
    round calls all sizes, so a busy spell meets them alike, and rounds go on until one of them
    brings nothing new. Where times are ``known`` from before, one round of narrow calls refines
    them.
    """
    committed, sizes = _committed(context_window), call_sizes(context_window)
    blocks = -(-(committed + sizes[-1]) // _BLOCK_SIZE)
    groups = [LayerGroup(blocks, window) for window in runner.windows]
    cache = BlockCache(groups, _BLOCK_SIZE, reuse_prefixes=False)
    runner.open_storages([pool.num_slots for pool in cache.pools])
    sequence = cache.open()
    runner.forward(StepBatch((_chain(sequence, committed),)))
    sequence.commit(range(committed), [TokenId(0)] * committed)
    if runner.shape.device.type == "cuda":
        # The first call of a size may make machine code for seconds, which no later call does.
        for size in sizes:
            _time(runner, sequence, size)
    seconds = dict.fromkeys(sizes, float("inf"))
    if known is not None:
        narrow = [size for size in sizes if size <= _REFINED]
        return {
            **known,
            **{size: min(known[size], _time(runner, sequence, size)) for size in narrow},
        }
    begun = time.perf_counter()
    rounds, is_news = 0, True
    while (is_news or rounds < _ROUNDS) and time.perf_counter() - begun <= _PATIENCE:
        rounds, is_news = rounds + 1, False
        for size in sizes:
            took = _time(runner, sequence, size)
            is_news = is_news or took < _NEWS * seconds[size]
            seconds[size] = min(seconds[size], took)
    return seconds


def _committed(context_window: int) -> int:
    return min(_COMMITTED, context_window // 2)


def _time(runner: ModelRunner, sequence: SequenceBlocks, size: int) -> float:
    """Seconds of one call over so many tokens, which are not kept."""
    batch = StepBatch((_chain(sequence, size),))
    started = time.perf_counter()
    runner.forward(batch)
    took = time.perf_counter() - started
    sequence.commit((), ())
    return took


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
