"""The work of a simulated engine in each step, and the time that it states for this."""

from __future__ import annotations

import pytest

from benchmarks.scaling.work import Costs, Job, Step, Work


def steps(work: Work) -> list[Step]:
    """All steps until no work is left."""
    done = []
    while work:
        done.append(work.step())
    return done


def test_a_prompt_takes_several_calls_and_the_last_has_the_first_token() -> None:
    work = Work(Costs(1.0, token=0.25, step_tokens=8))
    work.submit(Job("a", "x" * 80, "", tokens=2))  # 20 tokens
    assert steps(work) == [
        Step(3.0, (), ()),
        Step(3.0, (), ()),
        Step(2.0, ("a",), ()),
        Step(1.25, (), ("a",)),
    ]


def test_answers_under_way_come_before_prompts() -> None:
    work = Work(Costs(0.0, token=1.0, step_tokens=4))
    work.submit(Job("a", "x", "", tokens=3))
    assert work.step() == Step(1.0, ("a",), ())
    work.submit(Job("b", "x" * 16, "", tokens=1))
    assert work.step() == Step(4.0, (), ())  # one token of a, three of b's prompt
    assert work.step() == Step(2.0, ("b",), ("a", "b"))


def test_those_without_a_place_wait() -> None:
    work = Work(Costs(1.0, batch=2))
    for name in "abc":
        work.submit(Job(name, "", "", tokens=1))
    assert [each.finished for each in steps(work)] == [("a", "b"), ("c",)]


def test_a_constraint_is_compiled_before_its_first_call() -> None:
    work = Work(Costs(1.0, compiling=5.0))
    for _ in range(2):
        work.submit(Job("a", "", "[0-9]", tokens=1))
        work.step()
    assert (work.asked, work.compiled) == (2, 1)


def test_all_but_the_last_token_of_a_known_prompt_is_known() -> None:
    work = Work(Costs(0.0, token=1.0))
    seconds = []
    for _ in range(2):
        work.submit(Job("a", "x" * 512, "", tokens=1))
        seconds.append(work.step().seconds)
    assert seconds == [128.0, 1.0]


def test_a_job_says_what_it_took() -> None:
    work = Work(Costs(1.0, token=0.25, compiling=5.0, step_tokens=8))
    jobs = [Job(name, "x" * 80, "[0-9]", tokens=1) for name in "ab"]  # 20 tokens each
    for job in jobs:
        work.submit(job)
    steps(work)
    a, b = jobs
    assert (a.prompt_tokens, a.reused_tokens, a.compiling) == (20, 0, 5.0)
    assert (b.prompt_tokens, b.reused_tokens, b.compiling) == (20, 0, 0.0)
    assert (
        a.reading == 5.0 + 3 * 3.0
    )  # including the time before its first call, and b's first tokens
    assert b.reading == 5.0 + 5 * 3.0


@pytest.mark.parametrize("name", ["waits", "runs"])
def test_what_is_cancelled_is_gone(name: str) -> None:
    work = Work(Costs(1.0, batch=1))
    work.submit(Job("runs", "", "", tokens=5))
    work.submit(Job("waits", "", "", tokens=5))
    work.step()
    assert work.cancel(name)
    assert not work.cancel(name)
    assert len(work) == 1
