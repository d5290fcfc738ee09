"""A regular expression as a grammar of one terminal."""

from __future__ import annotations

from guided.errors import ConstraintError
from guided.frontends.place import Place
from guided.frontends.regex.parser import parse_regex
from guided.frontends.regex.python import parse_python_regex
from guided.grammar.context_free import ContextFreeGrammar, Terminal
from guided.spec import Regex, RegexDialect

__all__ = ["lower_regex"]


def lower_regex(constraint: Regex) -> ContextFreeGrammar:
    """The texts that match as a whole.

    Raises InvalidConstraintError or UnsupportedFeatureError, with a caret, or LimitExceededError.
    """
    if constraint.dialect is RegexDialect.ECMA:
        regular = parse_regex(constraint.pattern)
    else:
        # Of whole texts a lazy quantifier has as many as any other.
        try:
            regular = parse_python_regex(constraint.pattern, anchored=True)
        except ConstraintError as error:
            message = error.message + Place(constraint.pattern, error.position).picture
            raise type(error)(message, position=error.position, hint=error.hint) from error
    return ContextFreeGrammar({"text": Terminal(regular)}, "text")
