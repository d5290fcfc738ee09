"""Checks, without a model, whether a text fits a constraint, and where it leaves it."""

from __future__ import annotations

from typing import Final

from guided.constraint.machine import machine_of
from guided.machine.recognizer import Recognizer, State
from guided.masks.limits import ConstraintLimits
from guided.runtime.work_budget import limited_work, spend
from guided.spec import Structure, TextFit, TextReport

__all__ = ["read_text"]

_CHUNK: Final = 256
"""Bytes that are read between two checks of the work spent."""
_BYTE_WORK: Final = 2
"""Units of work for a byte, besides what is built for it."""
_COPIED: Final = 4_096
"""Bytes of remembered text copied per unit of work; each byte read copies that text."""


def read_text(
    constraint: Structure, text: bytes, limits: ConstraintLimits | None = None
) -> TextReport:
    """Report how far a text, complete or not, fits a constraint.

    The text is UTF-8, and may end within a character. The report describes the longest prefix that
    fits: what may follow it, and its shortest completion. The recogniser is built only for this, so
    none that answers use grows or is waited for. Raises what ``machine_of`` raises, and
    LimitExceededError if reading the text takes too much work or memory.
    """
    limits = limits or ConstraintLimits()
    with limited_work(limits.compile_work):
        machine = machine_of(constraint, limits=limits.recognizer)
    # Reading is paid for by the length of the text, what it builds by the limit of one position.
    with limited_work(limits.step_work + _BYTE_WORK * len(text), "reading the text"):
        state, offset = _follow(machine, text)
        allowed = bytes(
            byte for byte in range(256) if machine.advance(state, bytes((byte,))) is not None
        )
        may_end = machine.is_accepting(state)
        fit = TextFit.COMPLETE if may_end else TextFit.PREFIX
        if offset < len(text):
            fit = TextFit.REFUSED
        return TextReport(fit, offset, allowed, may_end, machine.shortest_completion(state))


def _follow(machine: Recognizer, text: bytes) -> tuple[State, int]:
    """Return the last state that a text reaches, and how many of its bytes lead there.

    If the text leaves the constraint, the state is the one before the first byte that is not
    allowed. Reads chunk by chunk, and byte by byte only in the chunk that is not allowed. Raises
    LimitExceededError.
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
    """Return the last state in the chunk in which the text leaves the constraint, and its offset.

    The chunk starts at offset ``begin``, in ``state``; the machine has refused it as a whole.
    """
    for offset in range(len(chunk)):
        following = machine.advance(state, chunk[offset : offset + 1])
        if following is None:
            return state, begin + offset
        state = following
    raise AssertionError("the chunk was refused, and each of its bytes is taken")
