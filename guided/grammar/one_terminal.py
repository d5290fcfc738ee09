"""Regular expressions and lists of texts as grammars of one terminal."""

from __future__ import annotations

from collections.abc import Collection

from guided.errors import ConstraintError, InvalidConstraintError
from guided.grammar.context_free import ContextFreeGrammar, Terminal
from guided.regular.patterns import parse_regex
from guided.regular.patterns.python import parse_python_regex
from guided.regular.word_graph import word_graph
from guided.spec import Regex, RegexDialect
from guided.spec.source_position import SourcePosition, check_encodable

__all__ = ["lower_choice", "lower_regex"]


def lower_regex(constraint: Regex) -> ContextFreeGrammar:
    """Return the grammar of the texts that a pattern of either dialect matches as a whole.

    Raises InvalidConstraintError or UnsupportedFeatureError, with a caret, or LimitExceededError.
    """
    check_encodable(constraint.pattern)
    if constraint.dialect is RegexDialect.ECMA:
        regular = parse_regex(constraint.pattern)
    else:
        # The pattern matches whole texts: anchors are allowed, and laziness makes no difference.
        # This parser's errors have only a position, so the line and the caret are added here.
        try:
            regular = parse_python_regex(constraint.pattern, anchored=True)
        except ConstraintError as error:
            message = error.message + SourcePosition(constraint.pattern, error.position).excerpt
            raise type(error)(message, position=error.position, hint=error.hint) from error
    return ContextFreeGrammar({"text": Terminal(regular)}, "text")


def lower_choice(options: Collection[str]) -> ContextFreeGrammar:
    """Return the grammar of exactly these texts; duplicates are allowed.

    Raises InvalidConstraintError for one that contains a surrogate, with the position in it, or
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
