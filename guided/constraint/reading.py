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
"""Bytes that are read between two checks of the room left."""
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
    allowed. Raises LimitExceededError.
    """
    state = machine.start
    for offset, byte in enumerate(text):
        if offset % _CHUNK == 0:
            machine.parts.check_room()
        spend(_BYTE_WORK + sum(map(len, state.texts)) // _COPIED)
        following = machine.step(state, byte)
        if following is None:
            return state, offset
        state = following
    return state, len(text)
