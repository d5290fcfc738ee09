"""Threads that help each other do every piece of a task once, whichever has a core."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from guided.model.cpu.addresses import take_next
from guided.model.cpu.kernel import exact_task, kernel
from guided.model.cpu.thread_team import run_together, team_address

_PIECES = 3_000
_TURNS = 300


@pytest.fixture(autouse=True)
def _restore_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@exact_task
def _count(job: Any) -> None:
    """``job``: the next piece and its address, the number of pieces, how often each was done."""
    while True:
        piece = take_next(job[1])
        if piece >= job[2]:
            return
        job[3 + piece] += 1


@kernel
def _run(job: Any, team: Any, task: Any, threads: Any) -> None:
    job[0], job[1] = 0, job.ctypes.data
    run_together(team, task, job.ctypes.data, threads)


def done(threads: int) -> NDArray[np.int64]:
    """How often each piece of a task was done."""
    job = np.zeros(3 + _PIECES, np.int64)
    job[2] = _PIECES
    _run(job, team_address(), _count.address, threads)
    return job[3:]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_piece_is_done_once(threads: int) -> None:
    torch.set_num_threads(threads)
    for _ in range(_TURNS):
        assert (done(threads) == 1).all()


def test_others_who_come_meanwhile_do_their_own() -> None:
    torch.set_num_threads(3)
    wrong: list[int] = []

    def work(place: int) -> None:
        for _ in range(_TURNS):
            if not (done(3) == 1).all():
                wrong.append(place)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_those_who_are_first_at_once_have_one_team() -> None:
    """In a new process, because this one already has a team."""
    asking = """
import threading
import torch
from guided.model.cpu.thread_team import team_address

found = set()
together = threading.Barrier(4)

def ask():
    torch.set_num_threads(3)
    together.wait()
    found.add(team_address())

threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 1, f"{len(found)} teams"
"""
    subprocess.run([sys.executable, "-c", asking], check=True, timeout=120)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_of_a_process_has_helpers_of_its_own() -> None:
    torch.set_num_threads(2)
    done(2)
    child = os.fork()
    if child == 0:
        is_right = all((done(2) == 1).all() for _ in range(_TURNS))
        os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
