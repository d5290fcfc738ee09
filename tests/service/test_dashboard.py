"""The dashboard for Grafana uses only existing metrics, with labels that they have."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guided.spec import DrafterUsage, FinishReason, Usage
from guided.stats import CacheStats, EngineStats, Histogram, ModelInfo, Phase
from guided_service.admission import Admission
from guided_service.exposition import EngineCollector

FILE = Path(__file__).parents[2] / "docs" / "grafana" / "guided.json"

_OF_THE_SCRAPER = {"instance", "job", "le"}
"""Labels that Prometheus adds itself."""


class Source:
    """The report of an engine that has done a little of everything."""

    def models(self) -> list[ModelInfo]:
        return [ModelInfo("model", 10, 10)]

    def stats(self) -> EngineStats:
        some = Histogram((1.0,), (1, 0), 0.5)
        return EngineStats(
            seconds=1.0,
            running=1,
            waiting=1,
            usage=Usage(by_drafter=(DrafterUsage("lookup", 1),)),
            model_calls=1,
            cache=CacheStats(1, 1, 1, 1),
            phases=dict.fromkeys(Phase, 1.0),
            compiling=some,
            queueing=some,
            first_token=some,
            inter_token=some,
            answering=some,
            answered={FinishReason.STOP: 1},
        )


@pytest.fixture(scope="module")
def exposed() -> dict[str, set[str]]:
    """Names of all samples, and the labels of each."""
    found: dict[str, set[str]] = defaultdict(set)
    for family in EngineCollector(Source(), Admission(1)).collect():
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    return found


def expressions(value: object) -> Iterator[tuple[str, str]]:
    """Every query of the dashboard, with the legend that it is shown under."""
    if isinstance(value, dict):
        if "expr" in value:
            yield value["expr"], value["legendFormat"]
        for inner in value.values():
            yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


def board() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text("utf-8")))


def test_every_query_asks_for_a_metric_that_there_is(exposed: dict[str, set[str]]) -> None:
    asked = list(expressions(board()))
    assert len(asked) > 30
    for query, legend in asked:
        names = set(re.findall(r"guided_\w+", query))
        assert names, query
        assert names <= exposed.keys(), query
        labels = {
            name for each in re.findall(r"by \(([^)]*)\)", query) for name in each.split(", ")
        }
        labels |= set(re.findall(r"{{(\w+)}}", legend))
        known = set.union(*(exposed[name] for name in names))
        assert labels <= known | _OF_THE_SCRAPER, query


def test_every_metric_has_its_place(exposed: dict[str, set[str]]) -> None:
    """Sums and counts of histograms are in their buckets."""
    shown = {name for query, _ in expressions(board()) for name in re.findall(r"guided_\w+", query)}
    assert {name for name in exposed if not name.endswith(("_sum", "_count"))} <= shown


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = board()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
