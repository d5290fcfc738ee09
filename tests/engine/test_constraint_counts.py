"""A request of each kind of constraint moves exactly the counts that are its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler
from guided.engine.engine import Engine
from guided.errors import GuidedError
from guided.runtime.work_budget import limited_work, spend
from guided.spec import (
    Choice,
    Constraint,
    Ebnf,
    Forcing,
    GenerationRequest,
    JsonSchema,
    Lark,
    Message,
    Reasoning,
    Regex,
    TokenId,
    Tool,
    ToolUse,
)
from guided.spec.composition import JsonObject, Sequence, Text
from guided.spec.constraint_kind import ConstraintKind, kind_of
from guided.spec.tagged import Tag, Tagged
from guided.stats import CompileOutcome, ConstraintStats, EngineStats
from tests.engine.finite_language import make_vocabulary
from tests.engine.tiny_models import make_engine, results

YES = Choice(("yes", "no"))
CALLS = ToolUse((Tool("f", "", '{"properties": {"a": {"enum": ["x"]}}}'),), "f")
UNCALLED = replace(CALLS, choice="none")
KINDS: dict[str, tuple[GenerationRequest, ConstraintKind]] = {
    "text": (GenerationRequest("a", None), ConstraintKind.NONE),
    "schema": (GenerationRequest("a", JsonSchema('{"enum": [1]}')), ConstraintKind.JSON_SCHEMA),
    "any object": (GenerationRequest("a", JsonObject()), ConstraintKind.JSON_SCHEMA),
    "pattern": (GenerationRequest("a", Regex("ab|cd")), ConstraintKind.REGEX),
    "Lark": (GenerationRequest("a", Lark('start: "a" | "b"')), ConstraintKind.LARK),
    "holes": (
        GenerationRequest("a", Lark("start: X\n%declare X", holes={"X": YES})),
        ConstraintKind.LARK,
    ),
    "EBNF": (GenerationRequest("a", Ebnf('root ::= "a" | "b"')), ConstraintKind.EBNF),
    "choice": (GenerationRequest("a", YES), ConstraintKind.CHOICE),
    "sequence": (GenerationRequest("a", Sequence(["x", YES])), ConstraintKind.COMPOSITION),
    "text alone": (GenerationRequest("a", Text("x")), ConstraintKind.COMPOSITION),
    "tags": (GenerationRequest("a", Tagged((Tag("<", YES),))), ConstraintKind.COMPOSITION),
    "tools": (GenerationRequest((Message("user", "a"),), tools=CALLS), ConstraintKind.TOOLS),
    "tools that are not called": (
        GenerationRequest((Message("user", "a"),), YES, tools=UNCALLED),
        ConstraintKind.CHOICE,
    ),
}


def counting_engine() -> Engine:
    """An engine with a compiler of its own, which it asks for its counts."""
    compiler = ConstraintCompiler(make_vocabulary())
    return make_engine(
        start=compiler.start,
        constraint_stats=compiler.stats,
        render=lambda *_: (TokenId(70),),
    )


def answered(engine: Engine, request: GenerationRequest) -> EngineStats:
    """What was added to the counts by the answer to a request."""
    before = engine.stats()
    engine.submit("one", replace(request, max_tokens=64))
    results(engine)
    return engine.stats().since(before)


def moved(stats: EngineStats) -> dict[ConstraintKind, int]:
    return {kind: count for kind, count in stats.submitted.items() if count}


@pytest.mark.parametrize("name", KINDS)
def test_a_request_counts_by_the_kind_of_its_constraint(name: str) -> None:
    request, kind = KINDS[name]
    engine = counting_engine()
    first, again = answered(engine, request), answered(engine, request)
    assert moved(first) == moved(again) == {kind: 1}
    assert (first.ended, again.ended) == (1, 1)
    is_compiled = kind is not ConstraintKind.NONE
    assert first.constraints.compilations == ({CompileOutcome.COMPILED: 1} if is_compiled else {})
    assert (first.constraints.hits, again.constraints.misses) == (0, 0)
    assert (again.constraints.hits, again.constraints.refusal_hits) == (is_compiled, 0)
    assert again.constraints.kept == is_compiled


def test_thoughts_do_not_change_the_kind() -> None:
    for request, kind in KINDS.values():
        assert kind_of(replace(request, reasoning=Reasoning(20))) is kind


def test_what_is_refused_was_submitted_too() -> None:
    engine = counting_engine()
    for _ in range(2):
        with pytest.raises(GuidedError):
            engine.submit("refused", GenerationRequest("a", Regex("(a")))
    stats = engine.stats()
    assert stats.submitted == {ConstraintKind.REGEX: 2}
    assert (stats.refused, stats.ended) == (2, 2)
    constraints = stats.constraints
    assert constraints.compilations == {CompileOutcome.INVALID: 1}
    assert (constraints.refusal_hits, constraints.kept_refusals, constraints.kept) == (1, 1, 0)


def test_a_compilation_that_a_deadline_ends_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def build_on_and_on(*_: Any) -> Any:
        with limited_work(10**9):
            while True:
                spend(500)

    monkeypatch.setattr("guided.constraint.compiler.build_machine", build_on_and_on)
    compiler = ConstraintCompiler(make_vocabulary())
    engine = make_engine(start=compiler.start, constraint_stats=compiler.stats, clock=lambda: now)
    engine.submit("late", GenerationRequest("a", Regex("a"), deadline=1.0))
    engine.step()
    assert engine.stats().constraints.compilations == {}
    now = 2.0
    engine.step()
    stats = engine.stats()
    assert stats.constraints.compilations == {CompileOutcome.STOPPED: 1}
    assert stats.constraints.compile_seconds[CompileOutcome.STOPPED] > 0
    assert (stats.failed, stats.submitted) == (1, {ConstraintKind.REGEX: 1})


@pytest.mark.parametrize("name", ["schema", "choice", "EBNF", "tools"])
def test_masks_are_computed_for_the_first_answer_and_found_by_the_next(name: str) -> None:
    request = replace(KINDS[name][0], forcing=Forcing.OFF)
    engine = counting_engine()
    first, again = answered(engine, request).constraints, answered(engine, request).constraints
    assert first.masks.count > 0
    assert first.mask_bytes > 0
    assert again.masks.count == 0
    assert again.mask_hits > 0


def test_free_text_moves_no_count_of_masks() -> None:
    stats = answered(counting_engine(), KINDS["text"][0]).constraints
    assert (stats.masks.count, stats.mask_hits, stats.mask_bytes) == (0, 0, 0)


def test_the_warm_up_is_not_counted() -> None:
    engine = counting_engine()
    answered(engine, KINDS["choice"][0])
    engine.reset_counters()
    stats = engine.stats()
    assert not stats.submitted
    assert (stats.constraints.misses, stats.constraints.hits) == (0, 0)
    assert (stats.constraints.masks.count, stats.constraints.mask_hits) == (0, 0)
    assert stats.constraints.kept == 1


def test_an_engine_that_is_not_told_of_its_compiler_counts_nothing_of_it() -> None:
    def begin(constraint: Constraint) -> Any:
        return ConstraintCompiler(make_vocabulary()).start(constraint)

    engine = make_engine(start=begin, render=lambda *_: (TokenId(70),))
    assert answered(engine, KINDS["choice"][0]).constraints == ConstraintStats()
