"""Work on constraints beside the answers: done in turns, bounded, and stopped on request."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

import guided
from guided.constraint.report import MAX_REPORT_BYTES
from guided.engine.constraint_tasks import ConstraintTasks, FinishedTask, Task
from guided.errors import DeadlineExceededError, InternalServiceError, InvalidConstraintError
from guided.masks.matcher import FreeText
from guided.spec import (
    CheckedConstraint,
    Choice,
    Constraint,
    Enforcement,
    JsonSchema,
    Regex,
    TextFit,
    TextReport,
    TokenId,
    Verdict,
)
from guided.spec.composition import Template
from tests.kit.walks import BYTES

SHORT = JsonSchema('{"type": "boolean"}')
PERSON = JsonSchema('{"properties": {"name": {"maxLength": 9}, "age": {"minimum": 0}}}')
LONG = Choice([f"value {n * 7919 % 10007} of many" for n in range(3000)])
"""Takes a dozen slices."""


class Bench:
    """Constraint tasks, what they compiled for requests, and their clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.compiled: list[Constraint] = []
        self.bench = ConstraintTasks(BYTES, self._start, lambda: self.now)

    def _start(self, constraint: Constraint) -> FreeText:
        self.compiled.append(constraint)
        return FreeText.of(BYTES)

    def submit(self, name: str, task: Task, deadline: float | None = None) -> None:
        self.bench.submit(name, lambda: task, deadline)

    def finish(self) -> dict[str, FinishedTask]:
        ended: dict[str, FinishedTask] = {}
        while self.bench.has_work:
            ended |= {each.request_id: each for each in self.bench.run_slice()}
        return ended


def checked(task: FinishedTask) -> CheckedConstraint:
    assert isinstance(task.outcome, CheckedConstraint), task.outcome
    return task.outcome


def test_a_check_tells_what_the_command_tells_and_what_it_costs() -> None:
    bench = Bench()
    bench.submit("a", Task("check", PERSON))
    found = checked(bench.finish()["a"])
    assert found.report == guided.check(PERSON.text)
    assert found.constraint_id == PERSON.digest()
    assert found.cost.seconds > 0
    assert found.cost.states > 10
    assert found.cost.nbytes > 4 * found.cost.states
    assert bench.compiled == []


def test_what_is_compiled_is_there_for_requests() -> None:
    bench = Bench()
    bench.submit("a", Task("compile", SHORT))
    assert checked(bench.finish()["a"]).report == guided.check(SHORT.text)
    assert bench.compiled == [SHORT]


def test_schemas_in_other_constraints_are_reported_with_their_part() -> None:
    bench = Bench()
    bench.submit("a", Task("check", Template("{b} or {c}", b=SHORT, c=Regex("x+"))))
    report = checked(bench.finish()["a"]).report
    assert report.verdicts == (Verdict("/type", Enforcement.ENFORCED, part="hole 'b'"),)
    assert report.shortest_answer == "true or x"


def test_a_refusal_ends_its_own_task_alone() -> None:
    bench = Bench()
    bench.submit("bad", Task("check", JsonSchema('{"a": {"type": "strin"}, "type": "strin"}')))
    bench.submit("good", Task("check", SHORT))
    ended = bench.finish()
    refusal = ended["bad"].outcome
    assert isinstance(refusal, InvalidConstraintError)
    assert refusal.pointer == "/type"
    assert checked(ended["good"]).report.shortest_answer == "true"


def test_a_fault_is_told_by_its_incident_alone() -> None:
    bench = Bench()

    def broken() -> Task:
        raise KeyError("secret")

    bench.bench.submit("a", broken)
    fault = bench.finish()["a"].outcome
    assert isinstance(fault, InternalServiceError)
    assert "secret" not in str(fault)


def test_tasks_take_turns_by_slices() -> None:
    bench = Bench()
    bench.submit("long", Task("check", LONG))
    assert bench.bench.run_slice() == []
    bench.submit("short", Task("read", SHORT, b"true"))
    slices = 0
    ended: list[FinishedTask] = []
    while not ended:
        ended, slices = bench.bench.run_slice(), slices + 1
    assert [each.request_id for each in ended] == ["short"]
    assert slices <= 4
    assert bench.bench.has_work


def test_only_a_few_tasks_have_begun_at_once() -> None:
    bench = Bench()
    begun: list[str] = []

    def beginning(name: str) -> Callable[[], Task]:
        def task() -> Task:
            begun.append(name)
            return Task("check", LONG)

        return task

    for name in "abcdef":
        bench.bench.submit(name, beginning(name))
    ended: list[FinishedTask] = []
    for _ in range(12):
        ended += bench.bench.run_slice()
    assert ended == []
    assert begun == [*"abcd"]
    assert {*bench.finish()} == {*"abcdef"}
    assert begun == [*"abcdef"]


def test_a_task_that_is_cancelled_gets_no_end() -> None:
    bench = Bench()
    bench.submit("a", Task("check", LONG))
    bench.bench.run_slice()
    bench.submit("b", Task("check", SHORT))
    bench.bench.cancel("a")
    bench.bench.cancel("unknown")
    assert {*bench.finish()} == {"b"}


def test_a_task_ends_at_its_deadline_begun_or_not() -> None:
    bench = Bench()
    for name in "ab":
        bench.submit(name, Task("check", LONG), deadline=1.0)
    bench.submit("c", Task("check", SHORT), deadline=3.0)
    assert bench.bench.run_slice() == []
    bench.now = 2.0
    ended = bench.finish()
    for name in "ab":
        assert isinstance(ended[name].outcome, DeadlineExceededError)
    assert checked(ended["c"])


def test_a_report_that_is_sent_is_bounded() -> None:
    """Pointers into nested schemas are long, and those of many members repeat them."""
    schema: dict[str, object] = {"properties": {f"member {n}": {"type": "null"} for n in range(80)}}
    for _ in range(40):
        schema = {"properties": {"a rather long name of a member" * 10: schema}}
    text = json.dumps(schema)
    bench = Bench()
    bench.submit("a", Task("check", JsonSchema(text)))
    report, whole = checked(bench.finish()["a"]).report, guided.check(text)
    assert 0 < report.omitted_verdicts == len(whole.verdicts) - len(report.verdicts)
    assert report.verdicts == whole.verdicts[: len(report.verdicts)]
    sizes = [len(verdict.pointer) for verdict in whole.verdicts]
    assert sum(sizes[: len(report.verdicts)]) <= MAX_REPORT_BYTES < sum(sizes)
    assert replace(report, verdicts=(), omitted_verdicts=0) == replace(whole, verdicts=())


def test_a_text_is_read() -> None:
    bench = Bench()
    bench.submit("a", Task("read", SHORT, b"trum"))
    assert bench.finish()["a"].outcome == TextReport(TextFit.REFUSED, 3, b"e", False, b"e")


def test_many_tokens_before_a_mask_are_read_in_slices() -> None:
    bench = Bench()
    bench.submit("a", Task("mask", SHORT, tokens=(TokenId(65),) * 1_000_000), deadline=1.0)
    assert bench.bench.run_slice() == []
    bench.now = 2.0
    assert isinstance(bench.finish()["a"].outcome, DeadlineExceededError)


@pytest.mark.parametrize(
    "task",
    [
        Task("check", SHORT),
        Task("read", SHORT, b""),
        Task("mask", SHORT, tokens=()),
        Task("draw", SHORT),
    ],
)
def test_nothing_is_left_behind(task: Task) -> None:
    bench = Bench()
    bench.submit("a", task)
    bench.finish()
    assert not bench.bench.has_work
    assert bench.bench.run_slice() == []
