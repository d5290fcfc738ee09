"""How long the text of a grammar may be."""

from __future__ import annotations

from typing import Final

from guided.errors import LimitExceededError

__all__ = ["MAX_GRAMMAR_LENGTH", "check_length"]

MAX_GRAMMAR_LENGTH: Final = 200_000
"""Characters of a grammar, and of each that it imports."""


def check_length(text: str) -> None:
    """Raise LimitExceededError for a text that is too long."""
    if len(text) > MAX_GRAMMAR_LENGTH:
        raise LimitExceededError(
            f"the grammar has {len(text)} characters, more than {MAX_GRAMMAR_LENGTH}",
            limit=MAX_GRAMMAR_LENGTH,
            field="constraint",
            hint="move parts of it to grammars that it imports, and lists of words to a Choice",
        )
