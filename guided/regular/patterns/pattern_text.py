"""The text of a pattern while it is read, and errors that point into it."""

from __future__ import annotations

from typing import NoReturn

from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.spec.source_position import Place

__all__ = ["PatternText"]


class PatternText:
    """A pattern read from the left; ``position`` is the next character."""

    def __init__(self, text: str, pointer: str | None) -> None:
        self.text = text
        self.pointer = pointer
        self.position = 0

    def peek(self) -> str:
        return self.text[self.position]

    def next(self) -> str:
        if self.position >= len(self.text):
            self.invalid("the pattern ends in the middle of a term")
        self.position += 1
        return self.text[self.position - 1]

    def take(self, expected: str) -> bool:
        if not self.text.startswith(expected, self.position):
            return False
        self.position += len(expected)
        return True

    def invalid(
        self, message: str, position: int | None = None, hint: str | None = None
    ) -> NoReturn:
        position = self.position if position is None else position
        raise InvalidConstraintError(
            self.shown(f"the pattern is wrong at character {position}: {message}", position),
            pointer=self.pointer,
            position=position,
            hint=hint,
        )

    def unsupported(
        self, what: str, position: int, hint: str = "write the pattern without it"
    ) -> NoReturn:
        raise UnsupportedFeatureError(
            self.shown(f"the pattern uses {what} at character {position}", position),
            pointer=self.pointer,
            position=position,
            hint=hint,
        )

    def shown(self, message: str, position: int) -> str:
        """The message, and below it the pattern with a caret at the position."""
        return f"{message}{Place(self.text, position).picture}"
