"""A regular expression as a grammar of one terminal."""

from __future__ import annotations

from guided.errors import ConstraintError
from guided.grammar.context_free import ContextFreeGrammar, Terminal
from guided.regular.patterns import parse_regex
from guided.regular.patterns.python import parse_python_regex
from guided.spec import Regex, RegexDialect
from guided.spec.source_position import SourcePosition

__all__ = ["lower_regex"]


def lower_regex(constraint: Regex) -> ContextFreeGrammar:
    """The texts that match as a whole, in either dialect.

    Raises InvalidConstraintError or UnsupportedFeatureError, with a caret, or LimitExceededError.
    """
    if constraint.dialect is RegexDialect.ECMA:
        regular = parse_regex(constraint.pattern)
    else:
        # Matched as a whole, it may have anchors, and a lazy quantifier has as many texts as any
        # other. The reader of this dialect gives a position only: the caret is added here.
        try:
            regular = parse_python_regex(constraint.pattern, anchored=True)
        except ConstraintError as error:
            message = error.message + SourcePosition(constraint.pattern, error.position).picture
            raise type(error)(message, position=error.position, hint=error.hint) from error
    return ContextFreeGrammar({"text": Terminal(regular)}, "text")
