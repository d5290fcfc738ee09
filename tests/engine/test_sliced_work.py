"""Work in slices of time and units; it stands still between them, and never waits for kernels."""

from __future__ import annotations

import threading
import time

import pytest

from guided.engine.sliced_work import RunningKernels, SlicedWork
from guided.errors import LimitExceededError
from guided.runtime.work_budget import limited_work, pause_if_due, spend, take_lock, without_gil

_AGES = 60.0
"""Seconds for slices that end by their units, and for waits that must not happen."""


class LongKernel:
    """Runs as kernels do, without the interpreter's lock, until the test lets it end."""

    def __init__(self) -> None:
        self._may_end = threading.Event()

    def run(self) -> None:
        with without_gil(10_000):
            assert self._may_end.wait(_AGES), "it was waited for"

    def end(self) -> None:
        self._may_end.set()


def test_work_in_slices_does_what_it_does_in_one_and_stands_still_between() -> None:
    done: list[int] = []

    def work() -> int:
        with limited_work(1_000_000):
            for number in range(10):
                done.append(number)
                spend(4_000)
        return sum(done)

    sliced = SlicedWork(work)
    seen = []
    while not sliced.run_slice(_AGES):
        seen.append(len(done))
    assert seen == [2, 4, 6, 8, 10]
    assert sliced.result() == 45
    assert sliced.run_slice(_AGES)


def test_a_slice_ends_with_its_time_where_little_is_counted() -> None:
    def work() -> None:
        for _ in range(20):
            time.sleep(0.01)
            pause_if_due()

    sliced = SlicedWork(work)
    slices = 0
    while not sliced.run_slice(0.02):
        slices += 1
    assert slices >= 5


def test_work_that_meets_its_limit_says_so_in_slices_too() -> None:
    def work() -> None:
        with limited_work(20_000):
            while True:
                spend(100)

    sliced = SlicedWork(work)
    while not sliced.run_slice():
        pass
    with pytest.raises(LimitExceededError, match="more than 20000 units of work"):
        sliced.result()


def test_a_kernel_is_not_waited_for_and_its_result_is_taken_later() -> None:
    kernel = LongKernel()
    trace: list[str] = []

    def work() -> str:
        kernel.run()
        trace.append("after the kernel")
        return "done"

    sliced = SlicedWork(work)
    assert not sliced.run_slice()
    waited = sliced.seconds
    assert not sliced.run_slice()  # it does nothing
    assert sliced.is_detached
    kernel.end()
    sliced.wait(_AGES)
    # It has returned, and rests before any further work.
    assert not sliced.is_detached
    assert trace == []
    assert sliced.seconds == waited, "the time of the kernel counts as the caller's"
    assert sliced.run_slice(_AGES)
    assert sliced.result() == "done"


def test_one_long_kernel_runs_at_a_time() -> None:
    kernels = RunningKernels()
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with without_gil(10_000):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)  # longer than a slice, so it is left
            inside.pop()

    every = [SlicedWork(work, kernels) for _ in range(3)]
    while any(not each.run_slice() for each in every):
        every[0].wait(0.01)
    assert most == [1, 1, 1]
    assert kernels.running == 0


@pytest.mark.parametrize("slices", [0, 1, 3])
def test_work_that_is_given_up_ends_wherever_it_is(slices: int) -> None:
    threads = threading.active_count()
    ended: list[str] = []

    def work() -> None:
        try:
            while True:
                time.sleep(0.01)
                pause_if_due()
        finally:
            ended.append("ended")

    sliced = SlicedWork(work)
    for _ in range(slices):
        assert not sliced.run_slice()
    sliced.cancel()
    assert ended == ["ended"] * bool(slices)
    assert threading.active_count() == threads


def test_work_that_is_given_up_in_a_kernel_is_not_waited_for() -> None:
    kernel, kernels = LongKernel(), RunningKernels()
    went_on: list[str] = []
    ended, may_return = threading.Event(), threading.Event()

    def work() -> None:
        try:
            kernel.run()
            went_on.append("after the kernel")
        finally:
            ended.set()
            may_return.wait(_AGES)

    sliced = SlicedWork(work, kernels)
    assert not sliced.run_slice()
    sliced.cancel()
    assert not ended.is_set()
    assert kernels.running == 1
    kernel.end()
    assert ended.wait(_AGES)
    assert went_on == []
    assert kernels.running == 0
    sliced.cancel()  # once more, which waits for nothing either
    may_return.set()


def test_who_wants_a_lock_that_others_rest_with_rests_until_it_is_free() -> None:
    lock = threading.RLock()
    order: list[str] = []

    def holder() -> None:
        with limited_work(1_000_000, lock=lock):
            for _ in range(4):
                spend(10_000)
        order.append("holder")

    def waiter() -> None:
        take_lock(lock)
        order.append("waiter")
        lock.release()

    first, second = SlicedWork(holder), SlicedWork(waiter)
    assert not first.run_slice(_AGES)
    assert not second.run_slice(_AGES)
    while any(not each.run_slice(_AGES) for each in (first, second)):
        pass
    assert order == ["holder", "waiter"]
