"""Plots the figures of a comparison, and what each drafter is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from guided.bench.compare import Comparison, Run
from guided.bench.drafters import NO_DRAFTS, DrafterFigures
from guided.bench.figures import figures_of
from guided.stats import Phase

__all__ = ["plot_comparison", "plot_drafters"]


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Draw latencies, tokens per model call and time by phase; the suffix sets the format."""
    figure = Figure(figsize=(14, 4.2), layout="constrained")
    latencies, tokens, phases = figure.subplots(1, 3)
    _draw_latencies(latencies, comparison.runs)
    _draw_tokens(tokens, comparison.runs)
    _draw_phases(phases, comparison.runs)
    figure.suptitle(f"{comparison.model}, {comparison.concurrency} at once")
    figure.savefig(path)


def _draw_latencies(axes: Axes, runs: Mapping[str, tuple[Run, ...]]) -> None:
    for way, parts in runs.items():
        seconds = [one.seconds for run in parts for one in run.measured if one.error is None]
        axes.ecdf(seconds, label=way)
    axes.set(xlabel="latency in seconds", ylabel="share of requests", title="Latency")
    axes.legend()


def _draw_tokens(axes: Axes, runs: Mapping[str, tuple[Run, ...]]) -> None:
    """Draw for each request its tokens over the model calls that it took part in."""
    found = {
        way: [
            one.usage.output_tokens / max(1, one.usage.model_calls)
            for run in parts
            for one in run.measured
            if one.error is None
        ]
        for way, parts in runs.items()
    }
    # The same bins for both ways, so that the bars can be compared.
    edges = np.histogram_bin_edges(np.concatenate(list(found.values())), bins=20)
    for way, values in found.items():
        axes.hist(values, edges.tolist(), alpha=0.6, label=way)
    axes.set(xlabel="tokens of an answer for each call it took part in", ylabel="requests")
    axes.set_title("Tokens a model call")
    axes.legend()


def _draw_phases(axes: Axes, runs: Mapping[str, tuple[Run, ...]]) -> None:
    figures = {way: figures_of(parts) for way, parts in runs.items()}
    bottom = np.zeros(len(figures))
    for phase in Phase:
        seconds = np.array([each.phases[phase] for each in figures.values()])
        axes.bar(list(figures), seconds, bottom=bottom, label=phase)
        bottom += seconds
    axes.set(ylabel="seconds of the engine", title="Time by phase")
    axes.legend()


def plot_drafters(
    title: str, found: Mapping[float, Mapping[str, DrafterFigures]], path: Path
) -> None:
    """Draw the figures of each way by temperature; the suffix of the path sets the format."""
    ways = len(next(iter(found.values())))
    figure = Figure(figsize=(15, 2.2 + 0.35 * ways * len(found)), layout="constrained")
    calls, speed, accepted = figure.subplots(1, 3, sharey=True)
    _draw_bars(calls, found, lambda one: one.calls_per_token)
    calls.set(xlabel="model calls a token", title="Model calls")
    calls.invert_yaxis()
    _draw_bars(speed, found, lambda one: one.speed_up)
    speed.axvline(1.0, color="grey", linewidth=0.8)
    speed.set(xlabel=f"speed-up over {NO_DRAFTS}", title="Speed")
    speed.legend()
    _draw_accepted(accepted, next(iter(found.values())))
    figure.suptitle(title)
    figure.savefig(path)


def _draw_bars(
    axes: Axes,
    found: Mapping[float, Mapping[str, DrafterFigures]],
    value: Callable[[DrafterFigures], float],
) -> None:
    """Draw a bar for each way and temperature."""
    height = 0.8 / len(found)
    for number, (temperature, by_way) in enumerate(found.items()):
        places = np.arange(len(by_way)) + height * (number - (len(found) - 1) / 2)
        label = f"temperature {temperature:g}" if temperature else "greedy"
        bars = axes.barh(places, [value(one) for one in by_way.values()], height, label=label)
        axes.bar_label(bars, fmt="%.2f", padding=2)
    first = next(iter(found.values()))
    axes.set_yticks(np.arange(len(first)), list(first))


def _draw_accepted(axes: Axes, by_way: Mapping[str, DrafterFigures]) -> None:
    """Draw the accepted tokens of a call by drafter, for each way at the first temperature."""
    left = np.zeros(len(by_way))
    names = {one.name: None for way in by_way.values() for one in way.figures.usage.by_drafter}
    for name in names:
        share = np.array(
            [
                sum(each.accepted_tokens for each in usage.by_drafter if each.name == name)
                / max(1, usage.model_calls)
                for usage in (one.figures.usage for one in by_way.values())
            ]
        )
        axes.barh(np.arange(len(by_way)), share, left=left, label=name)
        left += share
    axes.set(xlabel="accepted tokens a call", title="Drafted by whom")
    if names:
        axes.legend()
