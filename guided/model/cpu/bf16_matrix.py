"""Matrices of bf16, whose inputs are multiplied two by two.

An instruction for bf16 takes two inputs of 16 outputs, or a whole tile of such pairs. So a matrix
lies in blocks of 32 outputs, each from its first input to its last, so that memory is read from one
end to the other, which takes most of the time for up to 16 rows. A line of it is a pair of inputs
of half the outputs::

    w[0, k] w[0, k+1] | w[1, k] w[1, k+1] | ... | w[15, k] w[15, k+1]

After it comes the next pair of these outputs, to the 16th, or the same pair of the others.

Rows are rounded to bf16 for such an instruction, and stay float32 without one
(``bf16_vectors``); products stay in float32, as their sums. A sum belongs to one row, and is taken
in an order that does not depend on other rows, so a product is the same to the last bit whatever
rows stand beside it and however many.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.cpu.addresses import floats, halves, take_next
from guided.model.cpu.kernel import Task, kernel, task
from guided.model.cpu.llvm import LANES, LINE
from guided.model.cpu.matrix import LargePages, Numbers
from guided.model.cpu.numbers import narrow
from guided.model.cpu.thread_team import RowTask, run_together, team_address, team_size

__all__ = ["BLOCK", "LINES", "Bf16Kernel", "Bf16Matrix"]

LINES: Final = 16
"""Pairs of inputs that lie together."""
_INPUTS: Final = 2 * LINES
BLOCK: Final = 2 * LANES
"""Outputs that lie together."""
_CONFIG: Final = 10
"""The place of the eight numbers of ``Bf16Kernel.configs`` in a job."""
_BF16 = np.uint16(0)
"""Tells ``narrow`` the type to round to."""


class Bf16Kernel(NamedTuple):
    """A task that multiplies, with the job of ``_start``.

    ``most`` is how many rows a group has that is multiplied by a block at once; ``by_halves`` says
    whether 16 pairs of the same outputs lie together, ``rounds`` whether rows are rounded to bf16.
    ``configs``, int64 ``[most + 1, 8]``, are further numbers that the task needs in a call, by the
    rows of a group.
    """

    task: Task
    most: int
    by_halves: bool
    rounds: bool = True
    configs: NDArray[np.int64] | None = None


class Bf16Matrix:
    """Weights as bf16, rows as their kernel wants them, products in float32."""

    __slots__ = ("_bias", "_job", "_kernel", "_outputs", "_weights", "nbytes")

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        memory: LargePages,
        kernel: Bf16Kernel,
    ) -> None:
        self._kernel = kernel
        self._outputs, inputs = weight.shape
        blocks, depth = -(-self._outputs // BLOCK), -(-inputs // _INPUTS)
        plain = weight.to(torch.bfloat16).contiguous().view(torch.uint16).numpy()
        missing = blocks * BLOCK - self._outputs, depth * _INPUTS - inputs
        if any(missing):
            plain = np.pad(plain, ((0, missing[0]), (0, missing[1])))
        self._weights = memory.take(plain.nbytes)
        # Two inputs stay together, so both are moved at once.
        split = plain.view(np.uint32).reshape(blocks, 2, LANES, depth, LINES)
        ordered = split.transpose((0, 3, 1, 4, 2) if kernel.by_halves else (0, 3, 4, 1, 2))
        self._weights.view(np.uint32).reshape(ordered.shape)[:] = ordered
        self._bias = None if bias is None else bias.float().numpy().copy()
        self._job = np.zeros(_CONFIG + LINE // 8, np.int64)
        self._job[[0, 3, 4]] = self._weights.ctypes.data, depth, blocks
        self.nbytes = plain.nbytes

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``."""
        count = len(rows)
        if not count:
            return np.empty((0, self._outputs), np.float32)
        depth, blocks = int(self._job[3]), int(self._job[4])
        groups = -(-count // self._kernel.most)
        lines = -(-count // groups)  # of a group, so that groups are filled alike
        products = np.empty((groups * lines, blocks * BLOCK), np.float32)
        filled = self._pad_rows(rows, (groups * lines, depth * _INPUTS))
        job = self._job.copy()  # of this call alone: others may multiply at the same time
        if self._kernel.configs is not None:
            job[_CONFIG:] = self._kernel.configs[lines]
        team, function = team_address(), self._kernel.task.address
        _start(job, filled, products, lines, team, function, team_size())
        found = np.ascontiguousarray(products[:count, : self._outputs])
        if self._bias is not None:
            found += self._bias
        return found

    def _pad_rows(self, rows: Numbers, shape: tuple[int, int]) -> NDArray[Any]:
        """Return the rows as the kernel reads them, with zeros up to this ``shape``."""
        if self._kernel.rounds:
            rounded = np.zeros(shape, np.uint16)
            _round(rows, rounded)
            return rounded
        if rows.shape == shape:
            return np.ascontiguousarray(rows)
        filled = np.zeros(shape, np.float32)
        filled[: len(rows), : rows.shape[1]] = rows
        return filled


@task
def _round_rows(job: Any) -> None:
    """Round rows to bf16; ``job`` is that of ``RowTask``.

    Rows of the target may be longer; their further numbers are left as they are.
    """
    while True:
        row = take_next(job[5])
        if row >= job[4]:
            return
        source, target = floats(job[0] + row * job[2] * 4), halves(job[1] + row * job[3] * 2)
        for d in range(job[2]):
            target[d] = narrow(source[d], _BF16)


_round = RowTask(_round_rows)


@kernel
def _start(
    job: Any, filled: Any, products: Any, lines: Any, team: Any, function: Any, threads: Any
) -> None:
    """Run the task at ``function`` with a team: multiply rows in groups of ``lines``.

    ``job``: addresses of weights, rows, products; ``_INPUTS`` of a row, blocks, groups, rows of
    each; a counter and its address; the address of the configuration, which follows it. Those of
    the weights and the blocks are there already, and so is the configuration.
    """
    job[1], job[2] = filled.ctypes.data, products.ctypes.data
    job[5], job[6], job[7] = len(filled) // lines, lines, 0
    job[8], job[9] = job.ctypes.data + 7 * 8, job.ctypes.data + _CONFIG * 8
    run_together(team, function, job.ctypes.data, threads)
