"""Check byte by byte, without a model, whether a text fits a constraint and where it leaves it."""

from __future__ import annotations

from typing import Final

from guided.constraint.machine import machine_of
from guided.machine.recognizer import Recognizer, State
from guided.masks.limits import ConstraintLimits
from guided.runtime.fuel import limited_work, spend
from guided.spec import Structure, TextFit, TextReport

__all__ = ["read_text"]

_CHUNK: Final = 256
"""How many bytes are read between two checks of the work spent."""
_BYTE_WORK: Final = 2
"""Units of work for a byte, besides what is built for it."""
_COPIED: Final = 4_096
"""How many bytes of remembered text can be copied per unit of work; each byte read copies it."""


def read_text(
    constraint: Structure, text: bytes, limits: ConstraintLimits | None = None
) -> TextReport:
    """Follow a complete text, or the beginning of one, on a recogniser built only for this.

    So it neither fills the recogniser that answers use nor waits for it. The report describes the
    longest beginning that fits: what may follow it, and how it could be ended. Raises what
    ``machine_of`` raises, and LimitExceededError if reading the text takes too much work.
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
        return TextReport(fit, offset, following, may_end, machine.shortest_completion(state))


def _follow(machine: Recognizer, text: bytes) -> tuple[State, int]:
    """Return the last state that a text reaches, and how many of its bytes lead there.

    Reads chunk by chunk, and byte by byte only in the chunk that is refused. Raises
    LimitExceededError.

    If the text leaves the constraint, the state is the one before the refused byte. Room is checked
    once per chunk.
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
    """Return the same for the chunk in which the text leaves the constraint.

    The chunk starts at ``begin``, in ``state``. One of its bytes is refused, because
    the machine refused them together.
    """
    for offset in range(len(chunk)):
        following = machine.advance(state, chunk[offset : offset + 1])
        if following is None:
            return state, begin + offset
        state = following
    raise AssertionError("the chunk was refused, and each of its bytes is taken")
