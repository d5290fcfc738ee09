"""A few threads that help with any task, as far as the system lets them run.

A task is divided by a counter: each thread takes the next piece until there is none. The caller
posts the task, opens a door, works until nothing is left, closes the door, and waits for the
helpers that are still inside. So nothing waits for a helper that has not got a core yet. A barrier,
as OpenMP has it at the end of a task, waits for all threads, each time until the system runs the
last of them, which beside other programs takes many times as long as the task.

The door is one number, so that it changes at once::

    generation | places left | helpers inside        closed: no places left
    48 bits      8 bits        8 bits

A waiting thread loops for the usual time between two tasks, and then sleeps.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, cast

import numpy as np
import torch
from numba import types
from numpy.typing import NDArray

from guided.model.cpu.addresses import call, compare_exchange, fetch_add, pause, read, write
from guided.model.cpu.kernel import Task, inlined, kernel

__all__ = ["COUNTER_APART", "RowTask", "run_together", "team_address", "team_size"]

_FEW_ROWS = 8
"""Rows up to which a task is done before a helper would have come."""
_MOST = 255
_LINE = 64
COUNTER_APART = _LINE // 8
"""Integers between the last one of a job and its counter, which so has a line of the caches to
itself: all threads read the job, and each changes the counter all the time."""
# Bytes from the start of a team, each on its own line of the caches: other threads poll each.
_DOOR, _IS_BUSY, _SLEEPERS, _TASK, _JOB = (number * _LINE for number in range(5))
_MUTEX, _CONDITION = 5 * _LINE, 7 * _LINE
_NUMBERS = 9 * _LINE // 8

_INSIDE = 0xFF
_PLACE = 0x100
_PLACES = 0xFF00
_GENERATION = 0x10000
_PATIENCE = 4000
"""How often a thread polls before it sleeps, some 200 microseconds."""

_ADDRESS = types.int64
_lock = types.ExternalFunction("pthread_mutex_lock", types.int32(_ADDRESS))
_unlock = types.ExternalFunction("pthread_mutex_unlock", types.int32(_ADDRESS))
_wait = types.ExternalFunction("pthread_cond_wait", types.int32(_ADDRESS, _ADDRESS))
_broadcast = types.ExternalFunction("pthread_cond_broadcast", types.int32(_ADDRESS))


class _Team:
    """The threads of this process."""

    def __init__(self) -> None:
        self._state = np.zeros(_NUMBERS + _LINE // 8, np.int64)
        start = self._state.ctypes.data
        self.address = start + -start % _LINE
        self._helpers = 0
        system = ctypes.CDLL(None)
        for name, place in (("pthread_mutex_init", _MUTEX), ("pthread_cond_init", _CONDITION)):
            status = getattr(system, name)(ctypes.c_void_p(self.address + place), None)
            assert status == 0, f"{name}: {os.strerror(status)}"

    def grow(self, helpers: int) -> None:
        """Start threads until there are ``helpers``; they end with the process."""
        while self._helpers < helpers:
            # Before they start, because no thread may be compiling when the process ends.
            cast("Any", _help).compile((types.int64,))
            self._helpers += 1
            name = f"guided-{self._helpers}"
            threading.Thread(target=self._help, name=name, daemon=True).start()

    def _help(self) -> None:
        """Run a helper, which keeps the team in memory."""
        _help(self.address)


_team = _Team()


def _renew() -> None:
    global _team
    _team = _Team()


os.register_at_fork(after_in_child=_renew)  # a child has only one thread


def team_address() -> int:
    """Return the address of the team, with threads for ``team_size``."""
    _team.grow(team_size() - 1)
    return _team.address


def team_size() -> int:
    """Return how many threads run a task: as many as torch uses."""
    return min(torch.get_num_threads(), _MOST)


@inlined
def run_together(team: Any, task: Any, job: Any, threads: Any) -> None:
    """Run a task on a job with ``threads`` threads; the other arguments are addresses.

    The caller is one of them, and the only one while another caller has the team.
    """
    if threads == 1 or not compare_exchange(team + _IS_BUSY, 0, 1):
        call(task, job)
        return
    write(team + _TASK, task)
    write(team + _JOB, job)
    generation = read(team + _DOOR) // _GENERATION + 1
    write(team + _DOOR, generation * _GENERATION + (threads - 1) * _PLACE)
    _wake(team)
    call(task, job)
    door = read(team + _DOOR)
    while not compare_exchange(team + _DOOR, door, door & ~_PLACES):
        door = read(team + _DOOR)
    door &= ~_PLACES
    while door & _INSIDE:
        door = _wait_for_change(team, door)
    write(team + _IS_BUSY, 0)


@kernel
def _help(team: Any) -> None:
    """Help with tasks for ever."""
    door, last = np.int64(0), np.int64(0)
    while True:
        door = read(team + _DOOR)
        generation = door // _GENERATION
        if generation == last or not door & _PLACES:
            _wait_for_change(team, door)
        elif compare_exchange(team + _DOOR, door, door + 1 - _PLACE):
            last = generation
            call(read(team + _TASK), read(team + _JOB))
            left = fetch_add(team + _DOOR, -1) - 1
            if not left & (_PLACES | _INSIDE):
                _wake(team)


@inlined
def _wait_for_change(team: Any, door: Any) -> Any:
    """Wait until the door is no longer ``door``, first in a loop, then asleep; returns it."""
    for _ in range(_PATIENCE):
        found = read(team + _DOOR)
        if found != door:
            return found
        pause()
    # The count comes before the look, and a thread that changes the door reads the count after
    # that: one of the two sees the other.
    fetch_add(team + _SLEEPERS, 1)
    _lock(team + _MUTEX)
    while read(team + _DOOR) == door:
        _wait(team + _CONDITION, team + _MUTEX)
    _unlock(team + _MUTEX)
    fetch_add(team + _SLEEPERS, -1)
    return read(team + _DOOR)


@inlined
def _wake(team: Any) -> None:
    if read(team + _SLEEPERS):
        _lock(team + _MUTEX)
        _broadcast(team + _CONDITION)
        _unlock(team + _MUTEX)


class RowTask:
    """A task that maps each row to a row, shared out among the team if there are many.

    Its job: addresses of source and target, the numbers in a row of each, the number of rows, and
    the address of the counter of rows.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Map contiguous rows of one matrix to those of another; the target may have more."""
        threads = team_size() if len(source) > _FEW_ROWS else 1
        _start(np.zeros(7, np.int64), source, target, team_address(), self._task.address, threads)


@kernel
def _start(job: Any, source: Any, target: Any, team: Any, task: Any, threads: Any) -> None:
    job[0], job[1] = source.ctypes.data, target.ctypes.data
    job[2], job[3], job[4] = source.shape[1], target.shape[1], len(source)
    job[5] = job.ctypes.data + 6 * 8
    run_together(team, task, job.ctypes.data, threads)
