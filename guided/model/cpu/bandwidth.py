"""How fast this machine reads memory, which bounds a model call of few tokens."""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from guided.model.cpu.addresses import take_next
from guided.model.cpu.kernel import instruction, task
from guided.model.cpu.llvm import AHEAD, INT64, INTS, LANES, LINE, loop, pointer, prefetch
from guided.model.cpu.matrix import LargePages
from guided.model.cpu.thread_team import RowTask

__all__ = ["bytes_per_second"]

_ROWS: Final = 1024
_ROW: Final = 256 * 2**10
"""Bytes of a row: 256 MiB in all, more than caches hold."""
_ROUNDS: Final = 5


def bytes_per_second() -> float:
    """Return the speed of the fastest of some reads of 256 MiB, by all threads of a model call."""
    memory = LargePages().take(_ROWS * _ROW)
    memory[:] = 1
    rows = memory.view(np.int64).reshape(_ROWS, -1)
    found = np.zeros((_ROWS, LINE // 8), np.int64)
    fastest = float("inf")
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        _read_rows(rows, found)
        fastest = min(fastest, time.perf_counter() - began)
    return memory.nbytes / fastest


@instruction
def _add_lines(_: Any, row: Any, lines: Any, target: Any) -> Any:
    """Add up the lines of a row; storing the sum keeps the compiler from dropping the reads."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        its_row, its_lines, its_target = args

        def add(k: Any, sums: list[Any]) -> list[Any]:
            place = builder.add(its_row, builder.mul(k, INT64(LINE)))
            prefetch(builder, builder.add(place, INT64(AHEAD)), level=2)
            line = builder.load(pointer(builder, place, INTS), align=LINE)
            return [builder.add(sums[0], line)]

        [total] = loop(builder, its_lines, [ir.Constant(INTS, [0] * LANES)], add)
        builder.store(total, pointer(builder, its_target, INTS), align=8)
        return context.get_dummy_value()

    return types.void(row, lines, target), emit


@task
def _read(job: Any) -> None:
    while True:
        row = take_next(job[5])
        if row >= job[4]:
            return
        _add_lines(job[0] + row * job[2] * 8, job[2] * 8 // LINE, job[1] + row * job[3] * 8)


_read_rows = RowTask(_read)
