"""What a compiler counts: each look-up once, each compilation by its outcome, with its time."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.constraint.machine import build_machine
from guided.engine.sliced_work import SlicedWork
from guided.errors import GuidedError
from guided.runtime.work_budget import limited_work, spend
from guided.spec import Choice, JsonSchema, Lark, Regex, Structure
from guided.spec.composition import Text
from guided.spec.thoughts import AfterThoughts
from guided.stats import CompileOutcome
from tests.kit.walks import BYTES

_BUILT_BY = "guided.constraint.compiler.build_machine"
ENDED: dict[str, tuple[Structure, CompileOutcome]] = {
    "a schema": (JsonSchema('{"type": "integer"}'), CompileOutcome.COMPILED),
    "a type that there is not": (JsonSchema('{"type": "strin"}'), CompileOutcome.INVALID),
    "no pattern": (Regex("(a"), CompileOutcome.INVALID),
    "no grammar": (Lark("start: ("), CompileOutcome.INVALID),
    "a reference back": (Regex(r"(a)\1"), CompileOutcome.UNSUPPORTED),
    "no value": (JsonSchema('{"type": "integer", "enum": ["a"]}'), CompileOutcome.UNSATISFIABLE),
    "too large": (Regex("(a|b)*a(a|b){20}"), CompileOutcome.LIMIT),
}


def try_to_start(compiler: ConstraintCompiler, constraint: Structure) -> None:
    try:
        compiler.start(constraint)
    except GuidedError:
        return


@pytest.mark.parametrize("name", ENDED)
def test_a_compilation_is_counted_by_its_outcome_and_then_what_is_kept_is_found(name: str) -> None:
    constraint, outcome = ENDED[name]
    compiler = ConstraintCompiler(BYTES)
    try_to_start(compiler, constraint)
    first = compiler.stats()
    assert first.compilations == {outcome: 1}
    assert first.compile_seconds.keys() == {outcome}
    assert first.compile_seconds[outcome] > 0
    assert (first.misses, first.hits, first.refusal_hits) == (1, 0, 0)
    is_compiled = outcome is CompileOutcome.COMPILED
    assert (first.kept, first.kept_refusals) == (is_compiled, not is_compiled)
    assert (first.kept_bytes > 0) == is_compiled

    for _ in range(2):
        try_to_start(compiler, constraint)
    again = compiler.stats().since(first)
    assert (again.misses, again.compile_seconds[outcome]) == (0, 0)
    assert (again.hits, again.refusal_hits) == ((2, 0) if is_compiled else (0, 2))
    assert (again.kept, again.kept_refusals) == (first.kept, first.kept_refusals)


def test_free_text_is_not_looked_up() -> None:
    compiler = ConstraintCompiler(BYTES)
    compiler.start(None)
    stats = compiler.stats()
    assert (stats.misses, stats.hits, stats.refusal_hits, stats.kept) == (0, 0, 0, 0)


def test_thoughts_and_the_answer_after_them_are_looked_up_each() -> None:
    compiler = ConstraintCompiler(BYTES)
    constraint = AfterThoughts((Text("hm."),), Choice(("yes", "no")), 20)
    compiler.start(constraint)
    compiler.start(Choice(("yes", "no")))
    stats = compiler.stats()
    assert (stats.misses, stats.hits, stats.kept) == (2, 1, 2)


def test_a_fault_is_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(_BUILT_BY, fail)
    compiler = ConstraintCompiler(BYTES)
    for _ in range(2):
        with pytest.raises(MemoryError):
            compiler.start(Regex("a"))
    stats = compiler.stats()
    assert stats.compilations == {CompileOutcome.FAILED: 2}
    assert (stats.refusal_hits, stats.kept_refusals) == (0, 0)


def test_work_that_is_cancelled_was_stopped_and_its_rest_is_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build_on_and_on(*_: Any) -> Any:
        with limited_work(10**9):
            while True:
                spend(500)

    monkeypatch.setattr(_BUILT_BY, build_on_and_on)
    compiler = ConstraintCompiler(BYTES, ConstraintLimits(compile_work=10**9))
    work = SlicedWork(lambda: compiler.start(Regex("a")))
    assert not work.run_slice()
    time.sleep(0.5)
    assert compiler.stats().misses == 0
    work.cancel()
    stats = compiler.stats()
    assert stats.compilations == {CompileOutcome.STOPPED: 1}
    assert 0 < stats.compile_seconds[CompileOutcome.STOPPED] < 0.4


def test_threads_that_wait_for_one_compilation_have_found_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_building, may_end = threading.Event(), threading.Event()

    def wait(*rest: Any) -> Any:
        is_building.set()
        may_end.wait()
        return build_machine(*rest)

    monkeypatch.setattr(_BUILT_BY, wait)
    compiler = ConstraintCompiler(BYTES)
    threads = [
        threading.Thread(target=compiler.start, args=(Choice(("one", "two")),)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    assert is_building.wait(5)
    may_end.set()
    for thread in threads:
        thread.join()
    stats = compiler.stats()
    assert (stats.misses, stats.hits) == (1, 2)
