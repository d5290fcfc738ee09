"""The counters of an engine: a few additions a step, and more only when a request ends."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Self

import numpy as np

from guided.engine.request_clock import RequestClock
from guided.kv.block_cache import BlockCache
from guided.kv.block_table import BlockTable
from guided.spec import FinishReason, GenerationRequest, GenerationResult, Usage
from guided.spec.constraint_kind import ConstraintKind, kind_of
from guided.stats import CacheStats, ConstraintStats, EngineStats, Histogram, Phase

__all__ = ["BOUNDS", "DurationHistogram", "EngineCounters"]

BOUNDS = tuple(
    float(f"{digit}e{power}") for power in range(-3, 3) for digit in (1, 2, 5)
)  # 1 ms to 500 s
"""Upper bounds of the ranges in seconds, the same everywhere, so that times can be compared."""

_BOUNDS = np.array(BOUNDS)


class DurationHistogram:
    """Counts durations by range."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts = np.zeros(len(BOUNDS) + 1, np.int64)
        self._total = 0.0

    def add(self, seconds: Sequence[float]) -> None:
        """Count more durations."""
        values = np.asarray(seconds, np.float64)
        # A bound belongs to the range below it; the last range is above all bounds.
        ranges = np.searchsorted(_BOUNDS, values)
        self._counts += np.bincount(ranges, minlength=len(self._counts))
        self._total += float(values.sum())

    def histogram(self) -> Histogram:
        """Return what was counted so far."""
        return Histogram(BOUNDS, tuple(self._counts.tolist()), self._total)


class PhaseTimer:
    """A context that adds the seconds spent inside it to those of a phase."""

    # A class and not a generator, because several are entered in every step.
    __slots__ = ("_began", "_clock", "_phase", "_phases", "seconds")

    def __init__(
        self, phases: dict[Phase, float], phase: Phase, clock: Callable[[], float]
    ) -> None:
        self._phases = phases
        self._phase = phase
        self._clock = clock
        self._began = 0.0
        self.seconds = 0.0
        """How long the phase took, after leaving it."""

    def __enter__(self) -> Self:
        self._began = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the clock, even if an error ends the phase."""
        self.seconds = self._clock() - self._began
        self._phases[self._phase] += self.seconds


class EngineCounters:
    """Counters of one engine."""

    def __init__(self, constraint_stats: Callable[[], ConstraintStats] = ConstraintStats) -> None:
        """``constraint_stats`` returns the counts of the compiler, which counts for itself."""
        self._constraint_stats = constraint_stats
        self.reset()

    def reset(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Reset all counters; ``clock`` returns seconds."""
        self._began = time.monotonic()
        self._clock = clock
        self._phases = dict.fromkeys(Phase, 0.0)
        self._usage = Usage()
        self._constraints_before = self._constraint_stats()
        self._answered: Counter[FinishReason] = Counter()
        self._compiling = DurationHistogram()
        self._queueing = DurationHistogram()
        self._first_token = DurationHistogram()
        self._inter_token = DurationHistogram()
        self._answering = DurationHistogram()
        self._held_slots = 0
        self._spare_slots = 0
        self._failed = 0
        self._cancelled = 0
        self._refused = 0
        self._submitted: Counter[ConstraintKind] = Counter()
        self.model_calls = 0
        self.preempted = 0

    def phase(self, phase: Phase) -> PhaseTimer:
        """Return a context that adds the time spent inside to a phase."""
        return PhaseTimer(self._phases, phase, self._clock)

    def count_submitted(self, request: GenerationRequest) -> None:
        """Count a request that the engine was given."""
        self._submitted[kind_of(request)] += 1

    def count_refused(self) -> None:
        """Count a request that never waited for room."""
        self._refused += 1

    def count_held_slots(self, tables: Iterable[BlockTable]) -> None:
        """Add the slots that an answer holds during a model call."""
        # Summed over model calls, so slots count more the longer they are held.
        for table in tables:
            self._held_slots += table.held_slots
            self._spare_slots += table.spare

    def count_answered(self, clock: RequestClock, result: GenerationResult) -> None:
        """Count a request that has its answer."""
        self._answered[result.finish_reason] += 1
        self._add_usage(result.usage)
        self._answering.add([result.seconds])
        # One entry for each pause, as other servers count them, not one for each answer.
        self._inter_token.add(clock.pauses)
        timing = result.timing
        self._compiling.add([timing.compiling_seconds])
        self._queueing.add([timing.waiting_seconds])
        if timing.first_token_seconds is not None:
            self._first_token.add([timing.first_token_seconds])

    def count_failed(self, usage: Usage) -> None:
        """Count a request that ended with an error."""
        self._failed += 1
        self._add_usage(usage)

    def count_cancelled(self, usage: Usage) -> None:
        """Count a request that its caller gave up."""
        self._cancelled += 1
        self._add_usage(usage)

    def stats(
        self, under_way: Sequence[Usage], *, running: int, waiting: int, cache: BlockCache
    ) -> EngineStats:
        """Take a snapshot of all counters; ``under_way`` are the usages of open requests."""
        # Open requests count for themselves, and are added only when a snapshot is taken.
        return EngineStats(
            seconds=time.monotonic() - self._began,
            running=running,
            waiting=waiting,
            usage=Usage.total([self._usage, *under_way]),
            model_calls=self.model_calls,
            cache=self._cache_stats(cache),
            phases=dict(self._phases),
            compiling=self._compiling.histogram(),
            queueing=self._queueing.histogram(),
            first_token=self._first_token.histogram(),
            inter_token=self._inter_token.histogram(),
            answering=self._answering.histogram(),
            answered=dict(self._answered),
            failed=self._failed,
            cancelled=self._cancelled,
            refused=self._refused,
            preempted=self.preempted,
            constraints=self._constraint_stats().since(self._constraints_before),
            submitted=dict(self._submitted),
        )

    def _cache_stats(self, cache: BlockCache) -> CacheStats:
        """Return the blocks of all pools now, and slots summed over all model calls so far."""
        return CacheStats(
            block_size=cache.block_size,
            free=sum(pool.num_free for pool in cache.pools),
            held=sum(pool.num_held for pool in cache.pools),
            cached=sum(pool.num_cached for pool in cache.pools),
            held_slots=self._held_slots,
            spare_slots=self._spare_slots,
        )

    def _add_usage(self, usage: Usage) -> None:
        self._usage = Usage.total([self._usage, usage])
