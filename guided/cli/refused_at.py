"""Where a text leaves a grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guided.machine.recognizer import Recognizer

__all__ = ["refused_at"]


def refused_at(machine: Recognizer, text: str) -> int | None:
    """The first character that does not fit, or the end; ``None`` for a text that fits."""
    state = machine.start
    for index, character in enumerate(text):
        behind = machine.advance(state, character.encode())
        if behind is None:
            return index
        state = behind
    return None if machine.is_accepting(state) else len(text)
