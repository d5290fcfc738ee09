"""Access to memory at an address: numbers, integers that several threads change, and tasks.

The kernels of a team share nothing but addresses, and numba has no expression for some of this, so
each function below emits an instruction or two of LLVM.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from guided.model.cpu.kernel import emitted, instruction

__all__ = [
    "call",
    "compare_exchange",
    "fetch_add",
    "floats",
    "halves",
    "int8s",
    "int16s",
    "int32s",
    "integers",
    "pause",
    "read",
    "take_next",
    "write",
]

_INT64 = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
_TASK = ir.FunctionType(ir.VoidType(), [_BYTES]).as_pointer()
_ORDER = "seq_cst"


def _at(kind: Any) -> Any:
    """Make an instruction that turns an address into a pointer to numbers of a kind."""

    def at(_: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(address), emit  # type: ignore[no-untyped-call]

    return instruction(at)


floats, halves, integers = (_at(kind) for kind in (types.float32, types.uint16, types.int64))
int8s, int16s, int32s = (_at(kind) for kind in (types.int8, types.int16, types.int32))


def _on_pointer(emit: Callable[..., Any]) -> Callable[..., Any]:
    """Make an instruction whose first argument is a pointer to an integer."""

    def emit_on_pointer(context: Any, builder: Any, _: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _INT64.as_pointer())
        found = emit(builder, pointer, *args[1:])
        return context.get_dummy_value() if found is None else found

    return emit_on_pointer


@instruction
def read(_: Any, address: Any) -> Any:
    """Return the number at an address."""
    return types.int64(address), _on_pointer(lambda b, place: b.load_atomic(place, _ORDER, 8))


@instruction
def write(_: Any, address: Any, number: Any) -> Any:
    """Write a number to an address."""

    def emit(builder: Any, place: Any, value: Any) -> None:
        builder.store_atomic(value, place, _ORDER, 8)

    assert isinstance(number, types.Integer)
    return types.void(address, types.int64), _on_pointer(emit)


@instruction
def fetch_add(_: Any, address: Any, number: Any) -> Any:
    """Add to the number at an address, and return the number before."""
    assert isinstance(number, types.Integer)
    emit = _on_pointer(lambda b, place, value: b.atomic_rmw("add", place, value, _ORDER))
    return types.int64(address, types.int64), emit


@instruction
def compare_exchange(_: Any, address: Any, expected: Any, number: Any) -> Any:
    """Replace the number at an address if it is the expected one; return whether it was."""

    def emit(builder: Any, place: Any, old: Any, new: Any) -> Any:
        return builder.extract_value(builder.cmpxchg(place, old, new, _ORDER, _ORDER), 1)

    assert isinstance(expected, types.Integer)
    assert isinstance(number, types.Integer)
    return types.boolean(address, types.int64, types.int64), _on_pointer(emit)


@instruction
def take_next(_: Any, counter: Any) -> Any:
    """Return the number at an address and increment it, for the next thread."""
    emit = _on_pointer(lambda b, place: b.atomic_rmw("add", place, _INT64(1), "monotonic"))
    return types.int64(counter), emit


@emitted
def call(builder: Any, task: Any, job: Any) -> None:
    """Run the task at an address with the job at another."""
    its_job = builder.inttoptr(job, _BYTES)
    builder.call(builder.inttoptr(task, _TASK), [its_job])


@emitted
def pause(builder: Any) -> None:
    """Let the other thread of this core work for some ten nanoseconds, if it has one."""
    if platform.machine() in ("x86_64", "AMD64"):
        kind = ir.FunctionType(ir.VoidType(), [])
        name = "llvm.x86.sse2.pause"
        builder.call(builder.module.declare_intrinsic(name, (), kind), [])
