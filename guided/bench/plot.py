"""Plots the figures of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from guided.bench.compare import Comparison, Run
from guided.bench.figures import figures_of
from guided.stats import Phase

__all__ = ["plot_comparison"]


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
