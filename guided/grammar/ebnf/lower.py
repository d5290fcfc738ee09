"""EBNF grammars into context-free ones.

The format is that of llama.cpp (GBNF) with what xgrammar adds to it; docs/grammars.md says where
the two differ and what is read how.
"""

from __future__ import annotations

from typing import Final

from guided.errors import InvalidConstraintError, LimitExceededError
from guided.grammar.context_free import ContextFreeGrammar
from guided.grammar.ebnf.parser import parse_ebnf
from guided.grammar.ebnf.tokens import refused

__all__ = ["MAX_GRAMMAR_LENGTH", "lower_ebnf"]

MAX_GRAMMAR_LENGTH: Final = 1_000_000
"""Characters of a grammar."""


def lower_ebnf(text: str, root: str = "root") -> ContextFreeGrammar:
    """The grammar that ``text`` writes.

    Raises InvalidConstraintError or UnsupportedFeatureError, with line, column and caret, or
    LimitExceededError.
    """
    if len(text) > MAX_GRAMMAR_LENGTH:
        raise LimitExceededError(
            f"the grammar has {len(text)} characters, more than {MAX_GRAMMAR_LENGTH}",
            limit=MAX_GRAMMAR_LENGTH,
            field="constraint",
            hint="move lists of words to a Choice",
        )
    rules = parse_ebnf(text)
    for name, position in rules.called_at.items():
        if name not in rules.bodies:
            raise refused(
                InvalidConstraintError, text, position, f"the rule {name!r} is not defined"
            )
    if root not in rules.bodies:
        known = ", ".join(sorted(rules.bodies)[:10])
        raise InvalidConstraintError(
            f"the grammar has no rule {root!r} to start with",
            hint=f"define it, or start with one of {known}" if known else "define it",
        )
    return ContextFreeGrammar(rules.bodies, root)
