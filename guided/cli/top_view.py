"""Renders a frame of ``guided top``: what an engine did between two moments, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from guided.spec import DrafterUsage
from guided.stats import EngineStats, Histogram, ModelInfo, Phase

__all__ = ["view"]

_BAR_WIDTH: Final = 30

_NOTHING: Final = "-"
"""Shown where there is nothing to divide by."""


def view(model: ModelInfo, address: str, earlier: EngineStats, now: EngineStats) -> RenderableType:
    """Return the figures of a server; rates are between two moments of the same engine."""
    done = now.since(earlier)
    on = model.instruction_set and f", {model.instruction_set}"
    title = Text.assemble(
        ("guided top", "bold"),
        f"  {model.name} at {address}{on}, up {_age(now.seconds)}",
    )
    parts: list[RenderableType] = [_figures(done), _shares(_times(done)), _shares(_blocks(done))]
    if done.usage.by_drafter:
        parts.append(_drafters(done))
    return Panel(Group(*parts), title=title, title_align="left", padding=(1, 2))


def _figures(done: EngineStats) -> Table:
    usage, seconds = done.usage, done.seconds
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    ended = {reason.value: count for reason, count in done.answered.items()} | {
        "failed": done.failed,
        "refused": done.refused,
        "cancelled": done.cancelled,
    }
    rows = {
        "requests": (
            f"{done.in_flight} in flight, {done.queued} queued; in the engine {done.running} "
            f"running, {done.waiting} waiting"
        ),
        "ended": ", ".join(
            f"{_rate(count, seconds)} {reason}" for reason, count in ended.items() if count
        )
        or "none",
        "tokens": (
            f"{_rate(usage.output_tokens, seconds)} of answers "
            f"({_share(usage.forced_tokens, usage.output_tokens)} forced), "
            f"{_rate(usage.prompt_tokens, seconds)} of prompts "
            f"({_share(usage.reused_tokens, usage.prompt_tokens)} reused)"
        ),
        "model calls": (
            f"{_rate(done.model_calls, seconds)}, "
            f"{_ratio(usage.output_tokens, done.model_calls)} tokens each"
        ),
        "drafts": (
            f"{_share(usage.accepted_tokens, usage.drafted_tokens)} accepted, "
            f"{_ratio(usage.accepted_tokens, usage.drafted_calls)} tokens a call with drafts"
        ),
        "means": (
            f"first token {_mean(done.first_token)}, between tokens {_mean(done.inter_token)}, "
            f"answer {_mean(done.answering)}, compiling {_mean(done.compiling)}, "
            f"waiting {_mean(done.queueing)}"
        ),
    }
    for name, text in rows.items():
        table.add_row(name, text)
    return table


def _times(done: EngineStats) -> Iterator[tuple[str, float, float]]:
    """Yield what the engine spent its time on, as parts of the time that passed."""
    phases, total = done.phases, done.seconds
    known = {
        "model": phases[Phase.FORWARD],
        "mask": phases[Phase.SETTLE],
        "draft": phases[Phase.DRAFT],
        "take": phases[Phase.TAKE],
        "room": phases[Phase.ADMIT] + phases[Phase.RESERVE],
    }
    for name, seconds in known.items():
        yield name, seconds, total
    yield "idle", max(0.0, total - sum(known.values())), total


def _blocks(done: EngineStats) -> Iterator[tuple[str, float, float]]:
    cache = done.cache
    total = cache.held + cache.cached + cache.free
    yield "held blocks", cache.held, total
    yield "cached", cache.cached, total
    yield "free", cache.free, total


def _shares(rows: Iterator[tuple[str, float, float]]) -> Table:
    """Return a table with a bar for each part of a whole."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", min_width=11)
    table.add_column(justify="right", min_width=6)
    table.add_column(width=_BAR_WIDTH)
    table.add_row()
    for name, part, whole in rows:
        share = min(1.0, part / whole) if whole else 0.0
        bar = Bar(1.0, 0.0, share, width=_BAR_WIDTH, color="green")
        table.add_row(name, _share(part, whole), bar)
    return table


def _drafters(done: EngineStats) -> Table:
    table = Table(box=None, padding=(0, 2), pad_edge=False, title=" ")
    table.add_column("drafter", style="bold")
    for name in ("drafted", "accepted", "of its drafts", "a call", "of the time"):
        table.add_column(name, justify="right")
    for each in done.usage.by_drafter:
        table.add_row(*_of_drafter(each, done.seconds))
    return table


def _of_drafter(each: DrafterUsage, seconds: float) -> tuple[str, ...]:
    return (
        each.name,
        _rate(each.drafted_tokens, seconds),
        _rate(each.accepted_tokens, seconds),
        _share(each.accepted_tokens, each.drafted_tokens),
        _ratio(each.accepted_tokens, each.drafted_calls),
        _share(each.draft_seconds, seconds),
    )


def _rate(count: float, seconds: float) -> str:
    return f"{count / seconds:.1f}/s" if seconds > 0 else f"{_NOTHING}/s"


def _ratio(count: float, of: float) -> str:
    return f"{count / of:.2f}" if of else _NOTHING


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else _NOTHING


def _mean(histogram: Histogram) -> str:
    if not histogram.count:
        return _NOTHING
    mean = histogram.mean
    return f"{1000 * mean:.0f} ms" if mean < 1 else f"{mean:.1f} s"


def _age(seconds: float) -> str:
    """``42 s``, ``7 min``, ``3 h 12 min``."""
    minutes = int(seconds) // 60
    if not minutes:
        return f"{int(seconds)} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
