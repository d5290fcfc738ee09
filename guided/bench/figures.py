"""From what was measured to the figures that are told; docs/metrics.md defines each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from guided.bench.compare import Run
from guided.spec import Usage
from guided.stats import Phase

__all__ = ["PERCENTILES", "Figures", "Spread", "figures_of"]

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Spread:
    """How the values of many requests lie."""

    mean: float
    percentiles: tuple[float, ...]
    """Those of ``PERCENTILES``."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One way of answering a workload; times are in seconds."""

    requests: int
    finish_reasons: Mapping[str, int]
    """Answers by finish reason, and ``failed``."""
    wall: float
    usage: Usage
    """Of all answers; its ``model_calls`` count once for each request in a call."""
    model_calls: int
    waste: float
    free: int
    """Blocks of the cache that hold nothing, at the end."""
    held: int
    cached: int
    preempted: int
    phases: Mapping[Phase, float]
    latency: Spread | None
    waiting: Spread | None
    first_token: Spread | None
    inter_token_mean: Spread | None
    inter_token_max: Spread | None

    @property
    def requests_per_second(self) -> float:
        """Answers for each second of the run."""
        answered = self.requests - self.finish_reasons.get("failed", 0)
        return answered / self.wall

    @property
    def tokens_per_second(self) -> float:
        """Tokens of answers for each second of the run."""
        return self.usage.output_tokens / self.wall

    @property
    def tokens_per_call(self) -> float:
        """Tokens of answers for each model call."""
        return self.usage.output_tokens / max(1, self.model_calls)

    @property
    def overhead(self) -> float:
        """The share of step time outside of the model."""
        steps = sum(seconds for phase, seconds in self.phases.items() if phase is not Phase.TAKE)
        return 1.0 - self.phases[Phase.FORWARD] / steps if steps else 0.0


def figures_of(runs: Sequence[Run]) -> Figures:
    """The figures of all parts of a workload together."""
    measured = [one for run in runs for one in run.measured]
    answered = [one for one in measured if one.error is None]
    caches = [run.stats.cache for run in runs]
    timings = [one.timing for one in answered]
    reasons = Counter(
        "failed" if one.finish_reason is None else one.finish_reason.value for one in measured
    )
    return Figures(
        requests=len(measured),
        finish_reasons=dict(reasons),
        wall=sum(run.wall for run in runs),
        usage=Usage.total(one.usage for one in answered),
        model_calls=sum(run.stats.model_calls for run in runs),
        waste=sum(c.spare_slots for c in caches) / max(1, sum(c.held_slots for c in caches)),
        free=caches[-1].free,
        held=caches[-1].held,
        cached=caches[-1].cached,
        preempted=sum(run.stats.preempted for run in runs),
        phases={phase: sum(run.stats.phases[phase] for run in runs) for phase in Phase},
        latency=_spread([one.seconds for one in answered]),
        waiting=_spread([timing.waiting_seconds for timing in timings]),
        first_token=_spread([timing.first_token_seconds for timing in timings]),
        inter_token_mean=_spread([timing.mean_inter_token_seconds for timing in timings]),
        inter_token_max=_spread([timing.max_inter_token_seconds for timing in timings]),
    )


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(float(np.mean(known)), tuple(np.percentile(known, PERCENTILES).tolist()))
