"""What a mask benchmark says of an engine, told by an engine that errs where it is told to."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.peers.judging import Document, Job, Judged, judge
from tests.unit.peers.finite_engine import Bytes, FiniteEngine, Panic

ONE, TWO = Document([1], True), Document([2], True)
THREE, FOUR = Document([3], False), Document([4], False)


def judged(schema: dict[str, Any], *documents: Document, **how: Any) -> Judged:
    engine = FiniteEngine()
    engine.build(Bytes())
    return judge(engine, Job(schema, documents, **{"limit": 60.0} | how))


@pytest.mark.parametrize(
    ("schema", "documents", "status", "detail"),
    [
        ({"texts": ["[1]"]}, [], "pass", ""),
        ({"texts": ["[1]", "[2]"]}, [ONE, THREE, TWO], "pass", ""),
        ({"texts": ["[3]"]}, [THREE], "invalidation_error", "test 0: invalid accepted"),
        ({"texts": ["[1]"]}, [ONE, TWO], "validation_error", "test 1: token 1"),
        ({"texts": ["[1] "]}, [ONE], "validation_error", "test 0: end: not accepting"),
        ({"texts": ["[3]"]}, [THREE, ONE], "validation_error", "test 1: token 1"),
        ({"refused": ValueError("what?")}, [ONE], "compile_error", "ValueError: what?"),
        ({"refused": Panic("oh")}, [ONE], "compile_error", "Panic: oh"),
        ({"fails_at": [""]}, [ONE], "compile_error", "Panic: index out of bounds"),
        (
            {"out_of_fuel_at": [""]},
            [ONE],
            "compile_error",
            "ValueError: first mask: out of fuel",
        ),
        (
            {"texts": ["[1]"], "fails_at": ["["]},
            [THREE],
            "validation_error",
            "test 0: exception: Panic: index out of bounds",
        ),
        (
            {"texts": ["[1]"], "out_of_fuel_at": ["[1"]},
            [ONE],
            "validation_error",
            "test 0: exception: RuntimeError: out of fuel",
        ),
        (
            {"texts": ["[3]", "[4]"], "fails_at": ["[4"]},
            [THREE, FOUR],
            "invalidation_error",
            "test 0: invalid accepted",
        ),
        (
            {"texts": ["[1]"], "lies_at": ["[1"]},
            [ONE],
            "validation_error",
            "test 0: token 1: in the mask but not accepted",
        ),
    ],
)
def test_a_schema_has_the_status_of_its_worst_document(
    schema: dict[str, Any], documents: list[Document], status: str, detail: str
) -> None:
    found = judged(schema, *documents)
    assert (found.status, found.detail) == (status, detail)


def test_every_document_has_a_verdict() -> None:
    schema = {"texts": ["[1]", "[3]", "[4]"], "fails_at": ["[4"], "lies_at": ["[1"]}
    found = judged(schema, ONE, TWO, THREE, FOUR, Document("?", True))
    assert found.verdicts == ["rejected", "rejected", "accepted", "error", "skipped"]
    assert (found.valid_rejected, found.invalid_accepted, found.mask_lies) == (2, 1, 1)


def test_there_is_a_mask_for_each_token_and_one_for_the_end() -> None:
    found = judged({"texts": ["[1]", "[2]"]}, ONE, THREE, warm=True)
    assert [len(masks) for masks in found.mask_ns] == [4, 2]
    assert [len(steps) for steps in found.accept_ns] == [3, 1]
    assert [len(tokens) for tokens in found.token_ns] == [3, 1]
    assert found.single == 3  # [ and ] of the valid one, [ of the other
    assert found.ttfm_us is not None


def test_times_of_a_refused_schema_do_not_count() -> None:
    assert judged({"refused": ValueError()}, ONE).ttfm_us is None


def test_a_document_that_takes_too_long_is_broken_off() -> None:
    found = judged({"texts": ["[1]"]}, ONE, limit=0.0)
    assert (found.status, found.detail, found.verdicts) == ("timeout", "in the walk", [])


@pytest.mark.parametrize(
    ("forced", "right", "wrong"),
    [("", 0, 0), ("[", 1, 0), ("[1]", 3, 0), ("[1,", 2, 1), ("[1] ", 3, 1)],
)
def test_forced_tokens_count_where_they_are_those_of_a_valid_document(
    forced: str, right: int, wrong: int
) -> None:
    schema = {"texts": ["[1]", "[3]"], "forced": forced}
    found = judged(schema, ONE, TWO, Document([4], False), forced=True)
    assert (found.forced, found.forced_wrong, found.forced_tokens) == (right, wrong, 3)
    assert judged(schema, ONE).forced_tokens == 0
