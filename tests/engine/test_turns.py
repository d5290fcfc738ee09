"""Clients take turns in the work on constraints, however much work one of them brings."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from guided.constraint.compiler import ConstraintCompiler
from guided.engine.constraint_tasks import ConstraintTasks, Task
from guided.runtime.work_budget import limited_work, spend
from guided.spec import Constraint, GenerationRequest, Regex
from tests.engine.finite_language import make_vocabulary
from tests.engine.test_paused_answers import SlowMatcher
from tests.engine.tiny_models import make_engine, make_model, start, words

MODEL = make_model()
_MUCH = 12
"""Number of constraints of one client."""
_PAUSED = 4
"""Number of answers of one client."""
_PIECES = 20
_WORDS = ("name abcdna 12", "name abcd 12 12", "na", "abc name 12 ab 12")
_SLICE = 6_000
"""Units of a piece: enough to end a slice, however little time they take."""


class Compiler:
    """Compiles normally after some slices of work, and records whose slices they were.

    Only the units of a piece can end its slice, so on any machine the order of the pieces is that
    of the turns.
    """

    def __init__(self) -> None:
        self.turns: list[str] = []
        self._start = ConstraintCompiler(make_vocabulary()).start

    def start(self, constraint: Constraint) -> Any:
        assert isinstance(constraint, Regex)
        with limited_work(10**9):
            for _ in range(_PIECES):
                # Its first letter says whose it is.
                self.turns.append(constraint.pattern[0])
                spend(_SLICE)
        return self._start(constraint)


def brought() -> list[tuple[str, Regex]]:
    """Clients with their work: one with much, and then two with one constraint each."""
    much = [("a", Regex(f"a{number}")) for number in range(_MUCH)]
    return [*much, ("b", Regex("b0")), ("c", Regex("c0"))]


def check_turns(compiler: Compiler, run: Callable[[], list[str]]) -> None:
    """Check that between two turns of one client every other has at most one turn."""
    ended: list[str] = []
    while any(compiler.turns.count(mine) < _PIECES for mine in "bc"):
        ended += run()
    # Their work is almost done; none of the other client's twelve constraints is as far.
    assert {*ended} <= {"b0", "c0"}
    for mine in "bc":
        _, *between, _ = "".join(compiler.turns).split(mine)
        assert len(between) == _PIECES - 1
        assert "a" in "".join(between)
        assert all(len({*turns}) == len(turns) for turns in between)


def test_a_client_with_much_to_compile_for_answers_holds_nobody_up() -> None:
    compiler = Compiler()
    engine = make_engine(MODEL, start=compiler.start)
    for client, constraint in brought():
        request = GenerationRequest("x", constraint, max_tokens=4)
        engine.submit(constraint.pattern, request, client=client)
    check_turns(compiler, lambda: [each.request_id for each in engine.step()])


def test_a_client_with_much_to_look_at_holds_nobody_up() -> None:
    compiler = Compiler()
    bench = ConstraintTasks(make_vocabulary(), compiler.start)
    for client, constraint in brought():
        bench.submit(constraint.pattern, partial(Task, "compile", constraint), client=client)
    check_turns(compiler, lambda: [each.request_id for each in bench.run_slice()])


def test_a_client_with_many_answers_that_pause_holds_nobody_up() -> None:
    built: list[set[Any]] = []

    def begin(constraint: Constraint) -> SlowMatcher:
        built.append(set())
        return SlowMatcher(start(constraint), built[-1], threading.RLock())

    engine = make_engine(MODEL, start=begin)
    # The same words, but different constraints: equal ones would wait for each other.
    orders = map(list, itertools.permutations(_WORDS))
    for number in range(_PAUSED):
        request = GenerationRequest("x", words(*next(orders)))
        engine.submit(f"a{number}", request, client="a")
    engine.submit("b", GenerationRequest("x", words(*next(orders))), client="b")
    ended: list[str] = []
    while not ended:
        ended += [each.request_id for each in engine.step()]
    assert ended == ["b"]
    *much, other = map(len, built)
    assert sum(much) < 2 * other < _PAUSED * other
