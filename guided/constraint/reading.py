"""Whether a text fits a constraint, and where it leaves it, byte by byte and without a model."""

from __future__ import annotations

from typing import Final

from guided.constraint.machine import machine_of
from guided.machine.recognizer import Recognizer, State
from guided.masks.limits import ConstraintLimits
from guided.runtime.fuel import limited_work, spend
from guided.spec import Structure, TextFit, TextReport

__all__ = ["read_text"]

_CHUNK: Final = 256
"""Bytes that are read between two looks at what was spent."""
_BYTE_WORK: Final = 2
"""Units of work for a byte, beside what is built for it."""
_COPIED: Final = 4_096
"""Bytes of remembered text that take a unit of work to copy, which each byte after them does."""


def read_text(
    constraint: Structure, text: bytes, limits: ConstraintLimits | None = None
) -> TextReport:
    """Follow a text, complete or the beginning of one, on a recogniser of its own.

    So it neither fills up one that answers are written by, nor has to wait for it. The report is of
    the longest beginning that fits: what may follow it, and how it would be ended. Raises what
    ``machine_of`` does, and LimitExceededError for a text that takes too much to be read.
    """
    limits = limits or ConstraintLimits()
    with limited_work(limits.compile_work):
        machine = machine_of(constraint, limits=limits.recognizer)
    with limited_work(limits.step_work + _BYTE_WORK * len(text), "reading the text"):
        state, offset = _follow(machine, text)
        following = bytes(
            byte for byte in range(256) if machine.advance(state, bytes((byte,))) is not None
        )
        may_end = machine.is_accepting(state)
        fit = TextFit.COMPLETE if may_end else TextFit.PREFIX
        if offset < len(text):
            fit = TextFit.REFUSED
        return TextReport(fit, offset, following, may_end, machine.shortest_end(state))


def _follow(machine: Recognizer, text: bytes) -> tuple[State, int]:
    """The last state that a text gets to, and how many of its bytes lead there.

    Chunk by chunk, and only in the one that is refused byte by byte. Raises LimitExceededError.

    Where the text leaves the constraint the state is that before the byte that is refused. Room is
    asked for once a chunk.
    """
    state = machine.start
    for begin in range(0, len(text), _CHUNK):
        machine.parts.check_room()
        chunk = text[begin : begin + _CHUNK]
        spend(len(chunk) * (_BYTE_WORK + sum(map(len, state.texts)) // _COPIED))
        following = machine.advance(state, chunk)
        if following is None:
            return _follow_bytes(machine, state, chunk, begin)
        state = following
    return state, len(text)


def _follow_bytes(machine: Recognizer, state: State, chunk: bytes, begin: int) -> tuple[State, int]:
    """The same in the chunk in which the text leaves the constraint, from ``state`` at ``begin``.

    One of its bytes is refused, as the machine has refused them together.
    """
    for offset in range(len(chunk)):
        following = machine.advance(state, chunk[offset : offset + 1])
        if following is None:
            return state, begin + offset
        state = following
    raise AssertionError("the chunk was refused, and each of its bytes is taken")
