"""Turns measurements into figures and tables; docs/metrics.md defines each figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table

from guided.bench.compare import Run
from guided.bench.target import Way
from guided.spec import Usage
from guided.stats import Phase

__all__ = ["PERCENTILES", "Figures", "Spread", "figures_of", "figures_tables"]

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of a value over many requests."""

    mean: float
    percentiles: tuple[float, ...]
    """The percentiles of ``PERCENTILES``."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One way of answering a workload; times are in seconds."""

    requests: int
    finish_reasons: Mapping[str, int]
    """Answers by finish reason, and ``failed``."""
    wall: float
    usage: Usage
    """The usage of all answers; its ``model_calls`` count once for each request in a call."""
    model_calls: int
    waste: float
    free: int
    """Blocks of the cache that are empty at the end."""
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
        """Answers per second of the run."""
        answered = self.requests - self.finish_reasons.get("failed", 0)
        return answered / self.wall

    @property
    def tokens_per_second(self) -> float:
        """Tokens of answers per second of the run."""
        return self.usage.output_tokens / self.wall

    @property
    def tokens_per_call(self) -> float:
        """Tokens of answers per model call."""
        return self.usage.output_tokens / max(1, self.model_calls)

    @property
    def overhead(self) -> float:
        """The share of step time outside the model."""
        steps = sum(seconds for phase, seconds in self.phases.items() if phase is not Phase.TAKE)
        return 1.0 - self.phases[Phase.FORWARD] / steps if steps else 0.0


def figures_of(runs: Sequence[Run]) -> Figures:
    """Return the figures of all parts of a workload together."""
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
        # Of the answers, not of the engine: a server also counts the requests of others.
        usage=Usage.total(one.usage for one in answered),
        model_calls=sum(run.stats.model_calls for run in runs),
        # Weighted by model calls, as the counters are sums over them.
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


_ROWS: Sequence[tuple[str, Callable[[Figures], str]]] = (
    ("requests", lambda f: str(f.requests)),
    ("finish reasons", lambda f: ", ".join(f"{n} {r}" for r, n in f.finish_reasons.items())),
    ("seconds", lambda f: f"{f.wall:.2f}"),
    ("requests a second", lambda f: f"{f.requests_per_second:.2f}"),
    ("tokens a second", lambda f: f"{f.tokens_per_second:.1f}"),
    ("prompt tokens", lambda f: str(f.usage.prompt_tokens)),
    ("  of them reused", lambda f: str(f.usage.reused_tokens)),
    ("answer tokens", lambda f: str(f.usage.output_tokens)),
    ("  of them forced", lambda f: str(f.usage.forced_tokens)),
    ("  of them sampled", lambda f: str(f.usage.sampled_tokens)),
    ("    of them drafted right", lambda f: str(f.usage.accepted_tokens)),
    ("drafted tokens", lambda f: str(f.usage.drafted_tokens)),
    ("acceptance rate", lambda f: f"{f.usage.acceptance_rate:.2f}"),
    ("mean accepted length", lambda f: f"{f.usage.mean_accepted_length:.2f}"),
    ("correction rate", lambda f: f"{f.usage.correction_rate:.2f}"),
    ("model calls", lambda f: str(f.model_calls)),
    ("tokens a model call", lambda f: f"{f.tokens_per_call:.2f}"),
    ("step time outside of the model", lambda f: f"{f.overhead:.1%}"),
    ("cache slots wasted", lambda f: f"{f.waste:.1%}"),
    ("blocks free, held, cached", lambda f: f"{f.free}, {f.held}, {f.cached}"),
    ("pre-emptions", lambda f: str(f.preempted)),
)

_TIMES: Sequence[tuple[str, Callable[[Figures], Spread | None]]] = (
    ("latency", lambda f: f.latency),
    ("waiting for room", lambda f: f.waiting),
    ("time to first token", lambda f: f.first_token),
    ("inter-token latency, mean", lambda f: f.inter_token_mean),
    ("inter-token latency, max", lambda f: f.inter_token_max),
)


def figures_tables(figures: Mapping[str, Figures]) -> RenderableType:
    """Return tables of all figures, and the speed-up."""
    times = [_times(way, each) for way, each in figures.items()]
    parts: list[RenderableType] = [_counts(figures), *times, _phases(figures)]
    if Way.PLAIN in figures:
        guided, plain = figures[Way.GUIDED], figures[Way.PLAIN]
        parts.append(
            f"speed-up against plain decoding: {plain.wall / guided.wall:.2f}x, "
            f"with {guided.model_calls / max(1, plain.model_calls):.2f} of its model calls"
        )
    return Group(*parts)


def _counts(figures: Mapping[str, Figures]) -> Table:
    table = Table("", *figures)
    for name, cell in _ROWS:
        table.add_row(name, *map(cell, figures.values()))
    return table


def _times(way: str, figures: Figures) -> Table:
    kinds = ("mean", *(f"p{percentile}" for percentile in PERCENTILES))
    table = Table(f"{way}, milliseconds", *kinds)
    for name, spread_of in _TIMES:
        spread = spread_of(figures)
        values = () if spread is None else (spread.mean, *spread.percentiles)
        table.add_row(name, *([f"{1e3 * value:.1f}" for value in values] or ["-"] * len(kinds)))
    return table


def _phases(figures: Mapping[str, Figures]) -> Table:
    table = Table("seconds of the engine", *figures)
    for phase in Phase:
        table.add_row(phase, *(f"{each.phases[phase]:.2f}" for each in figures.values()))
    return table
