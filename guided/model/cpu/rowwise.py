"""Tasks that make a row of each row, shared out among the team where there are many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from guided.model.cpu.kernel import Task, kernel
from guided.model.cpu.team import run_together, team_address, team_size

__all__ = ["Rowwise"]

_FEW = 8
"""So many rows are done before a helper would have come."""


class Rowwise:
    """A task with this job: addresses of source and target, the numbers in a row of each, the
    number of rows, and the address of the counter of rows."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Two matrices, each with its rows one behind the other; the target may have more."""
        threads = team_size() if len(source) > _FEW else 1
        _start(np.zeros(7, np.int64), source, target, team_address(), self._task.address, threads)


@kernel
def _start(job: Any, source: Any, target: Any, team: Any, task: Any, threads: Any) -> None:
    job[0], job[1] = source.ctypes.data, target.ctypes.data
    job[2], job[3], job[4] = source.shape[1], target.shape[1], len(source)
    job[5] = job.ctypes.data + 6 * 8
    run_together(team, task, job.ctypes.data, threads)
