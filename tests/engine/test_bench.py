"""A workload is measured in both ways by one engine, and the figures are those of its answers."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from guided.bench import InProcess, Way, compare, figures_of, figures_tables
from guided.spec import GenerationRequest, Usage
from tests.engine.tiny_models import make_engine, words

WORKLOAD = {
    str(n): GenerationRequest("abc" * (n + 1), words("yes, indeed", "yes, if so", "no"), 16)
    for n in range(7)
} | {
    "free": GenerationRequest("xyz", None, 6),
    "refused": GenerationRequest("xyz", None, 9999),
}


def test_both_ways_answer_everything_and_the_figures_add_up() -> None:
    told: list[tuple[Way, int, int]] = []
    comparison = compare(
        InProcess(make_engine(max_batch=2, reuse_prefixes=False)),
        WORKLOAD,
        concurrency=2,
        rounds=2,
        tell=lambda *about: told.append(about),
    )
    # Nine requests in slices of three, twice, in two ways that take turns in going first.
    assert [way.value[0] for way, _, _ in told] == list("gppg" * 3)
    assert [about[1:] for about in told] == [(n, 12) for n in range(12)]
    for way, runs in comparison.runs.items():
        measured = [one for run in runs for one in run.measured]
        assert [one.name for one in measured] == 2 * list(WORKLOAD)
        failed = [one for one in measured if one.error]
        assert {one.name for one in failed} == {"refused"}
        assert "context window" in str(failed[0].error)
        figures = figures_of(runs)
        assert (figures.requests, figures.finish_reasons["failed"]) == (18, 2)
        assert figures.usage == Usage.total(one.usage for one in measured)
        assert (figures.usage.forced_tokens > 0) == (way is Way.GUIDED)
        assert figures.latency is not None
        seconds = [one.seconds for one in measured if one.error is None]
        assert figures.latency.mean == pytest.approx(np.mean(seconds))
        assert figures.latency.percentiles[0] == pytest.approx(np.median(seconds))
        assert 0 < figures.overhead < 1
        assert figures.held == 0
        # No call serves more than two, so there are at least half as many as requests took part in.
        assert figures.usage.model_calls / 2 <= figures.model_calls <= figures.usage.model_calls
    guided, plain = (figures_of(comparison.runs[way]) for way in (Way.GUIDED, Way.PLAIN))
    assert guided.model_calls < plain.model_calls
    assert plain.tokens_per_call <= 2


@pytest.mark.parametrize("with_plain", [True, False])
def test_figures_are_shown_and_drawn(tmp_path: Path, with_plain: bool) -> None:
    plot = pytest.importorskip("guided.bench.plot", exc_type=ImportError)
    target = InProcess(make_engine())
    comparison = compare(target, WORKLOAD, concurrency=4, with_plain=with_plain)
    console = Console(width=100, file=StringIO(), record=True)
    console.print(figures_tables({way: figures_of(r) for way, r in comparison.runs.items()}))
    shown = console.export_text()
    assert "time to first token" in shown
    assert ("speed-up against plain decoding" in shown) == with_plain
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        path = tmp_path / f"plot{suffix}"
        plot.plot_comparison(comparison, path)
        assert path.read_bytes().startswith(magic)


def test_a_workload_that_is_wholly_refused_has_figures_of_nothing() -> None:
    workload = {"refused": WORKLOAD["refused"]}
    comparison = compare(InProcess(make_engine()), workload, concurrency=1, with_plain=False)
    figures = figures_of(comparison.runs[Way.GUIDED])
    assert figures.finish_reasons == {"failed": 1}
    assert (figures.latency, figures.first_token, figures.tokens_per_call) == (None, None, 0)
    assert figures.requests_per_second == 0
