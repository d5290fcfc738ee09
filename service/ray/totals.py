"""Sums the statistics of several engines as if they were one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from guided.spec import Usage
from guided.stats import CacheStats, ConstraintStats, EngineStats, Histogram, Phase

__all__ = ["total_of"]


def total_of(engines: Sequence[EngineStats]) -> EngineStats | None:
    """Add up all counts, with the age of the oldest engine; ``None`` without engines."""
    if not engines:
        return None

    def count(name: str) -> int:
        return sum(getattr(each, name) for each in engines)

    def times(name: str) -> Histogram:
        return Histogram.together([getattr(each, name) for each in engines])

    return EngineStats(
        seconds=max(each.seconds for each in engines),
        running=count("running"),
        waiting=count("waiting"),
        usage=Usage.total(each.usage for each in engines),
        model_calls=count("model_calls"),
        cache=_caches([each.cache for each in engines]),
        phases={phase: sum(each.phases.get(phase, 0.0) for each in engines) for phase in Phase},
        compiling=times("compiling"),
        queueing=times("queueing"),
        first_token=times("first_token"),
        inter_token=times("inter_token"),
        answering=times("answering"),
        answered=dict(sum((Counter(each.answered) for each in engines), Counter())),
        failed=count("failed"),
        cancelled=count("cancelled"),
        refused=count("refused"),
        preempted=count("preempted"),
        submitted=dict(sum((Counter(each.submitted) for each in engines), Counter())),
        constraints=ConstraintStats.total(each.constraints for each in engines),
    )


def _caches(caches: Sequence[CacheStats]) -> CacheStats:
    names = ("free", "held", "cached", "held_slots", "spare_slots")
    counts = {name: sum(getattr(each, name) for each in caches) for name in names}
    return CacheStats(caches[0].block_size, **counts)
