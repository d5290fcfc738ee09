"""The figures as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from guided.bench.figures import PERCENTILES, Figures, Spread
from guided.bench.measured import Way
from guided.stats import Phase

__all__ = ["figures_tables"]

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
    ("    of them guessed right", lambda f: str(f.usage.accepted_tokens)),
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


def figures_tables(figures: Mapping[Way, Figures]) -> RenderableType:
    """All figures, and the speed-up."""
    times = [_times(way, each) for way, each in figures.items()]
    parts: list[RenderableType] = [_counts(figures), *times, _phases(figures)]
    if Way.PLAIN in figures:
        guided, plain = figures[Way.GUIDED], figures[Way.PLAIN]
        parts.append(
            f"speed-up against plain decoding: {plain.wall / guided.wall:.2f}x, "
            f"with {guided.model_calls / max(1, plain.model_calls):.2f} of its model calls"
        )
    return Group(*parts)


def _counts(figures: Mapping[Way, Figures]) -> Table:
    table = Table("", *figures)
    for name, cell in _ROWS:
        table.add_row(name, *map(cell, figures.values()))
    return table


def _times(way: Way, figures: Figures) -> Table:
    kinds = ("mean", *(f"p{percentile}" for percentile in PERCENTILES))
    table = Table(f"{way}, milliseconds", *kinds)
    for name, spread_of in _TIMES:
        spread = spread_of(figures)
        values = () if spread is None else (spread.mean, *spread.percentiles)
        table.add_row(name, *([f"{1e3 * value:.1f}" for value in values] or ["-"] * len(kinds)))
    return table


def _phases(figures: Mapping[Way, Figures]) -> Table:
    table = Table("seconds of the engine", *figures)
    for phase in Phase:
        table.add_row(phase, *(f"{each.phases[phase]:.2f}" for each in figures.values()))
    return table
