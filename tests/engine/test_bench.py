"""One engine measures a workload in both ways, and the figures are those of its answers."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from guided.bench import InProcess, Way, compare, compare_ways, figures_of, figures_tables
from guided.bench.drafters import (
    ALL,
    DRAFTS_ALONE,
    MASKS_ALONE,
    NO_DRAFTS,
    drafter_figures,
    drafter_tables,
    drafter_ways,
)
from guided.drafters import LookupDrafter
from guided.errors import RequestError
from guided.spec import Forcing, GenerationRequest, Usage
from tests.engine.finite_language import make_vocabulary
from tests.engine.test_trees import DraftAnything, repeating_requests
from tests.engine.tiny_models import make_engine, words

WORKLOAD = {
    str(n): GenerationRequest("abc" * (n + 1), words("yes, indeed", "yes, if so", "no"), 16)
    for n in range(7)
} | {
    "free": GenerationRequest("xyz", None, 6),
    "refused": GenerationRequest("xyz", None, 9999),
}


def test_both_ways_answer_everything_and_the_figures_add_up() -> None:
    told: list[tuple[str, int, int]] = []
    comparison = compare(
        InProcess(make_engine(max_batch=2, reuse_prefixes=False)),
        WORKLOAD,
        concurrency=2,
        rounds=2,
        tell=lambda *about: told.append(about),
    )
    # Nine requests in slices of three, twice, in two ways that take turns at being first.
    assert [way[0] for way, _, _ in told] == list("gppg" * 3)
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
        # A call serves at most two requests, so there are at least half as many as they sum to.
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


def test_each_drafter_is_measured_alone_and_with_the_others(tmp_path: Path) -> None:
    """Greedy, so that all ways which force runs give the same answers in fewer calls."""
    vocabulary = make_vocabulary()
    engine = make_engine(
        max_batch=2,
        reuse_prefixes=False,
        drafters=(LookupDrafter(vocabulary), DraftAnything()),
        widest_draft=16,
    )
    target = InProcess(engine)
    assert target.drafters == ("lookup", "one by one")
    ways = drafter_ways(target.drafters, 0.0)
    workload = repeating_requests(Forcing.CANONICAL, 0.0)
    comparison = compare_ways(target, workload, ways, concurrency=2)
    found = drafter_figures(comparison)
    assert list(found) == [MASKS_ALONE, NO_DRAFTS, "lookup", "one by one", ALL, DRAFTS_ALONE]
    texts = {
        way: {one.name: one.text for run in runs for one in run.measured}
        for way, runs in comparison.runs.items()
    }
    assert texts[NO_DRAFTS] == texts["lookup"] == texts["one by one"] == texts[ALL]
    for way, names in {
        MASKS_ALONE: [],
        NO_DRAFTS: [],
        "lookup": ["lookup"],
        "one by one": ["one by one"],
        ALL: ["lookup", "one by one"],
        DRAFTS_ALONE: ["lookup", "one by one"],
    }.items():
        one = found[way]
        usage = one.figures.usage
        assert sorted(each.name for each in usage.by_drafter) == names
        assert one.calls_per_token * one.tokens_per_call == pytest.approx(1.0)
        assert one.calls_per_token == usage.model_calls / usage.output_tokens
        assert (one.draft_share > 0) == bool(names)
        assert (usage.forced_tokens > 0) == (way not in (MASKS_ALONE, DRAFTS_ALONE))
    assert found[NO_DRAFTS].speed_up == found[NO_DRAFTS].worst_request == 1.0
    # Every legal token is drafted, so one of them is always right.
    for fewer, more in ((ALL, NO_DRAFTS), (NO_DRAFTS, MASKS_ALONE), (DRAFTS_ALONE, MASKS_ALONE)):
        assert found[fewer].calls_per_token < found[more].calls_per_token
    console = Console(width=80, file=StringIO(), record=True)
    console.print(drafter_tables(found))
    shown = console.export_text()
    assert all(word in shown for word in ("worst request", DRAFTS_ALONE, "together"))
    plot = pytest.importorskip("guided.bench.plot", exc_type=ImportError)
    plot.plot_drafters("tiny", {0.0: found, 0.7: found}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_without_drafters_there_is_nothing_to_measure() -> None:
    with pytest.raises(RequestError, match="there is no drafter to measure"):
        drafter_ways(InProcess(make_engine()).drafters, 0.0)
