"""A list of texts as a grammar of one terminal."""

from __future__ import annotations

from collections.abc import Collection

from guided.errors import InvalidConstraintError
from guided.grammar.context_free import ContextFreeGrammar, Terminal
from guided.regular.word_graph import word_graph

__all__ = ["lower_choice"]


def lower_choice(options: Collection[str]) -> ContextFreeGrammar:
    """Exactly these texts; one that is listed twice is one.

    Raises InvalidConstraintError for one that is not Unicode text, with the position in it, or
    LimitExceededError.
    """
    for option in options:
        try:
            option.encode()
        except UnicodeEncodeError as error:
            raise InvalidConstraintError(
                f"the option {option[:40]!r} holds a surrogate, which is half of a character",
                position=error.start,
            ) from error
    return ContextFreeGrammar({"text": Terminal(word_graph(options))}, "text")
