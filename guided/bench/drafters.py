"""Measures what each drafter is worth: a workload with each of them alone, with all, and with none.

The table is the usual one for speculative decoding (SpecInfer, Medusa): acceptance, accepted
length, calls per token, speed-up. Here two things save model calls, forced runs and drafts, so each
is also measured alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table

from guided.bench.compare import Change, Comparison, Run
from guided.bench.figures import Figures, figures_of
from guided.errors import RequestError
from guided.spec import NO_DRAFTER, DrafterUsage, Forcing, GenerationRequest, Sampling

__all__ = [
    "ALL",
    "DRAFTS_ALONE",
    "MASKS_ALONE",
    "NO_DRAFTS",
    "DrafterFigures",
    "drafter_figures",
    "drafter_tables",
    "drafter_ways",
]

MASKS_ALONE: Final = "masks alone"
"""A model call for each token."""
NO_DRAFTS: Final = "forced runs alone"
"""No drafting; the baseline for speed."""
ALL: Final = "all drafters"
"""As in a request that names none: each where it pays off."""
DRAFTS_ALONE: Final = "drafts alone"
"""All drafters, without forced runs."""
_SEED: Final = 0


@dataclass(frozen=True, slots=True)
class DrafterFigures:
    """A workload answered in one of these ways."""

    figures: Figures
    calls_per_token: float
    """Model calls that the answers took part in, per token of theirs."""
    draft_share: float
    """The share of the run's time that drafters took."""
    speed_up: float
    """The time without drafting over the time in this way."""
    worst_request: float | None
    """The largest ratio of a request's time to its time without drafting, each in its fastest
    round. ``None`` if no request was answered both ways."""

    @property
    def tokens_per_call(self) -> float:
        """Tokens per model call that an answer took part in."""
        return 1.0 / self.calls_per_token if self.calls_per_token else 0.0


def drafter_ways(drafters: Sequence[str], temperature: float) -> Mapping[str, Change]:
    """Return the ways to compare, by name; raises RequestError if there is no drafter.

    Every request has one temperature and one seed, so that with coupled noise all ways with forced
    runs give the same answers.
    """
    if not drafters:
        raise RequestError(
            "there is no drafter to measure", field="drafters", hint="load one with the model"
        )
    ways = {
        MASKS_ALONE: _way(temperature, Forcing.OFF, ()),
        NO_DRAFTS: _way(temperature, None, (NO_DRAFTER,)),
    }
    ways |= {name: _way(temperature, None, (name,)) for name in drafters}
    ways |= {
        ALL: _way(temperature, None, ()),
        DRAFTS_ALONE: _way(temperature, Forcing.OFF, tuple(drafters)),
    }
    return ways


def _way(temperature: float, forcing: Forcing | None, drafters: tuple[str, ...]) -> Change:
    """``forcing`` replaces the request's own, if given."""

    def change(request: GenerationRequest) -> GenerationRequest:
        return replace(
            request,
            forcing=forcing or request.forcing,
            drafters=drafters,
            sampling=Sampling(temperature, seed=_SEED),
        )

    return change


def drafter_figures(comparison: Comparison) -> dict[str, DrafterFigures]:
    """Return the figures of each way."""
    baseline = comparison.runs[NO_DRAFTS]
    without = figures_of(baseline)
    fastest = _fastest(baseline)
    found = {}
    for way, runs in comparison.runs.items():
        figures = figures_of(runs)
        usage = figures.usage
        ratios = [
            seconds / fastest[name] for name, seconds in _fastest(runs).items() if name in fastest
        ]
        found[way] = DrafterFigures(
            figures,
            calls_per_token=usage.model_calls / max(1, usage.output_tokens),
            draft_share=usage.draft_seconds / figures.wall,
            speed_up=without.wall / figures.wall,
            worst_request=max(ratios, default=None),
        )
    return found


def _fastest(runs: Sequence[Run]) -> dict[str, float]:
    """Return the seconds of each answered request in its fastest round."""
    found: dict[str, float] = {}
    for run in runs:
        for one in run.measured:
            if one.error is None:
                found[one.name] = min(one.seconds, found.get(one.name, one.seconds))
    return found


def drafter_tables(found: Mapping[str, DrafterFigures]) -> RenderableType:
    """Return tables of all ways, and of what each drafter contributes among the others."""
    tokens = Table("", "rate", "length", "corrected", "calls a token", "tokens a call")
    times = Table("", "drafting", "seconds", "speed-up", "worst request")
    for way, one in found.items():
        usage = one.figures.usage
        has_drafts = usage.drafted_calls > 0
        rates = (
            f"{usage.acceptance_rate:.2f}",
            f"{usage.mean_accepted_length:.2f}",
            f"{usage.correction_rate:.2f}",
        )
        tokens.add_row(
            way,
            *(rates if has_drafts else ("-",) * len(rates)),
            f"{one.calls_per_token:.3f}",
            f"{one.tokens_per_call:.2f}",
        )
        times.add_row(
            way,
            f"{one.draft_share:.1%}",
            f"{one.figures.wall:.2f}",
            f"{one.speed_up:.2f}x",
            "-" if one.worst_request is None else f"{one.worst_request:.2f}x",
        )
    return Group(tokens, times, _together(found[ALL].figures.usage.by_drafter))


def _together(drafters: Sequence[DrafterUsage]) -> Table:
    columns = ("drafted", "accepted", "rate", "length", "corrected", "left out", "ms")
    table = Table("together", *columns)
    for one in drafters:
        table.add_row(
            one.name,
            str(one.drafted_tokens),
            str(one.accepted_tokens),
            f"{one.acceptance_rate:.2f}",
            f"{one.mean_accepted_length:.2f}",
            f"{one.correction_rate:.2f}",
            str(one.skipped_calls),
            f"{1e3 * one.draft_seconds:.0f}",
        )
    return table
