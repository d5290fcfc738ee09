"""What lies at an address: numbers, integers that several threads change, and tasks."""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types

from guided.model.cpu.kernel import instruction

__all__ = [
    "added",
    "call",
    "floats",
    "halves",
    "integers",
    "pause",
    "read",
    "replaced",
    "take_next",
    "write",
]

_INT64 = ir.IntType(64)
_TASK = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()]).as_pointer()
_ORDER = "seq_cst"


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _INT64.as_pointer())


def _at(kind: Any) -> Any:
    """Numbers of a kind at an address."""

    def at(_: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(address), emit  # type: ignore[no-untyped-call]

    return instruction(at)


floats, halves, integers = (_at(kind) for kind in (types.float32, types.uint16, types.int64))


@instruction
def read(_: Any, address: Any) -> Any:
    """The number there."""

    def emit(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        return builder.load_atomic(_pointer(builder, args[0]), _ORDER, 8)

    return types.int64(address), emit


@instruction
def write(_: Any, address: Any, number: Any) -> Any:
    """Put a number there."""
    assert isinstance(number, types.Integer)

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        builder.store_atomic(args[1], _pointer(builder, args[0]), _ORDER, 8)
        return context.get_dummy_value()

    return types.void(address, types.int64), emit


@instruction
def added(_: Any, address: Any, number: Any) -> Any:
    """Add to the number there, which is returned as it was before."""
    assert isinstance(number, types.Integer)

    def emit(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, args[0]), args[1], _ORDER)

    return types.int64(address, types.int64), emit


@instruction
def replaced(_: Any, address: Any, expected: Any, number: Any) -> Any:
    """Put a number in the place of the one expected, and tell whether that was there."""
    assert isinstance(expected, types.Integer)
    assert isinstance(number, types.Integer)

    def emit(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        pointer = _pointer(builder, args[0])
        found = builder.cmpxchg(pointer, args[1], args[2], _ORDER, _ORDER)
        return builder.extract_value(found, 1)

    return types.boolean(address, types.int64, types.int64), emit


@instruction
def take_next(_: Any, counter: Any) -> Any:
    """The number at an address, which is one more for whoever asks next."""

    def emit(__: Any, builder: Any, ___: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, args[0]), _INT64(1), "monotonic")

    return types.int64(counter), emit


@instruction
def call(_: Any, task: Any, job: Any) -> Any:
    """Run the task at an address with the job at another."""

    def emit(context: Any, builder: Any, __: Any, args: Any) -> Any:
        job = builder.inttoptr(args[1], ir.IntType(8).as_pointer())
        builder.call(builder.inttoptr(args[0], _TASK), [job])
        return context.get_dummy_value()

    return types.void(task, job), emit


@instruction
def pause(_: Any) -> Any:
    """Let the other thread of this core work for some ten nanoseconds, where it has one."""

    def emit(context: Any, builder: Any, __: Any, ___: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(builder.module.declare_intrinsic(name, (), kind), [])
        return context.get_dummy_value()

    return types.void(), emit
