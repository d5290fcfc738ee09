"""Tasks on the threads that torch has already, so that no others wait beside them."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from llvmlite import ir
from numba import types

from guided.model.cpu.kernel import instruction

__all__ = ["run_together", "take_next", "team_address", "team_size"]

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
_TASK = ir.FunctionType(ir.VoidType(), [_BYTES]).as_pointer()
_TEAM = ir.FunctionType(ir.VoidType(), [_TASK, _BYTES, _INT32, _INT32]).as_pointer()


@cache
def team_address() -> int:
    """Where ``GOMP_parallel`` of torch's OpenMP is; 0 where it has another one."""
    function = getattr(ctypes.CDLL(None), "GOMP_parallel", None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def team_size() -> int:
    """How many threads a task is for; one alone where torch's cannot be called."""
    return torch.get_num_threads() if team_address() else 1


@instruction
def run_together(_: Any, team: Any, task: Any, job: Any, threads: Any) -> Any:
    """Let so many threads run a task on a job each; all but the number are addresses."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        function = builder.inttoptr(args[1], _TASK)
        its_job = builder.inttoptr(args[2], _BYTES)
        is_alone = builder.icmp_signed("==", args[3], _INT64(1))
        with builder.if_else(is_alone) as (alone, together):
            with alone:
                builder.call(function, [its_job])
            with together:
                count = builder.trunc(args[3], _INT32)
                start = builder.inttoptr(args[0], _TEAM)
                builder.call(start, [function, its_job, count, _INT32(0)])
        return context.get_dummy_value()

    return types.void(team, task, job, threads), emit


@instruction
def take_next(_: Any, counter: Any) -> Any:
    """The number at an address, which is one more for whoever asks next."""

    def emit(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _INT64.as_pointer())
        return builder.atomic_rmw("add", pointer, _INT64(1), "monotonic")

    return types.int64(counter), emit
