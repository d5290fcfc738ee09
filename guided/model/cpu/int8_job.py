"""What a task gets that multiplies rows by a matrix of int8, and how it is started."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.cpu.int8_layout import Int8Layout
from guided.model.cpu.kernel import Task, kernel
from guided.model.cpu.matrix import Numbers
from guided.model.cpu.thread_team import COUNTER_APART, run_together, team_address, team_size

__all__ = ["Int8Job"]

_COUNTER: Final = 11 + COUNTER_APART
"""Where a job has its counter."""


class Int8Job:
    """The numbers of a job that are the same in all calls of a matrix."""

    __slots__ = ("_bias", "_layout", "_numbers")

    def __init__(self, layout: Int8Layout, bias: torch.Tensor | None, depth: int) -> None:
        """``depth`` is how the task counts inputs: one by one, or by lines."""
        self._layout = layout
        self._bias = layout.pad_bias(bias)
        self._numbers = np.zeros(_COUNTER + 1, np.int64)
        self._numbers[[0, 3, 4]] = layout.weights.ctypes.data, depth, layout.width
        self._numbers[[8, 9]] = layout.scales.ctypes.data, self._bias.ctypes.data

    def run(self, task: Task, rows: NDArray[Any], sums: NDArray[Any], scales: Numbers) -> Numbers:
        """Map rows as the task reads them, with the sum and the scale of each, to its products."""
        products = np.empty((len(scales), self._layout.width), np.float32)
        job = self._numbers.copy()  # of this call alone: others may multiply at the same time
        team, function = team_address(), task.address
        _start(job, rows, sums, scales, products, team, function, team_size())
        return np.ascontiguousarray(products[:, : self._layout.outputs])


@kernel
def _start(
    job: Any, rows: Any, sums: Any, scales: Any, products: Any, team: Any, function: Any, size: Any
) -> None:
    """``job``: addresses of weights, rows, products; depth, outputs, rows; nothing; addresses of
    the counter, of scales and biases of outputs, of scales and sums of rows."""
    job[1], job[2], job[5], job[_COUNTER] = rows.ctypes.data, products.ctypes.data, len(scales), 0
    job[7] = job.ctypes.data + _COUNTER * 8
    job[10], job[11] = scales.ctypes.data, sums.ctypes.data
    run_together(team, function, job.ctypes.data, size)
