"""Whether one of the simplest values fits, told without a search."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from guided.grammar.assertions import (
    ABOUT,
    Assertion,
    Booleans,
    Contains,
    Has,
    ItemCount,
    JsonType,
    Length,
    Matches,
    MemberCount,
    NumberChoices,
    Numbers,
    StringChoices,
    Types,
)
from guided.grammar.formula import All, Any, Constant, Formula, Leaf, Not
from guided.grammar.json_grammar import JsonGrammar
from guided.grammar.numbers import holds

__all__ = ["SimpleValues"]

_KINDS: Final = (
    JsonType.STRING,
    JsonType.NUMBER,
    JsonType.OBJECT,
    JsonType.ARRAY,
    JsonType.BOOLEAN,
    JsonType.NULL,
)
_ZERO: Final = Decimal(0)
_MAX_LEVELS: Final = 32


class SimpleValues:
    """Tries ``""``, ``0``, ``{}``, ``[]``, ``true`` and ``null`` on formulas of one grammar.

    Most of what a schema says of a member is fitted by one of them, and a wide object has to know
    of all its members at once that they can be fitted.
    """

    def __init__(self, grammar: JsonGrammar) -> None:
        self._grammar = grammar

    def one_fits(self, formulas: Sequence[Formula]) -> bool:
        """Whether one of them is known to fit all the formulas."""
        return any(
            all(self._fits(formula, kind, 0) is True for formula in formulas) for kind in _KINDS
        )

    def _fits(self, formula: Formula, kind: JsonType, level: int) -> bool | None:
        """Whether the value of a type fits, ``None`` where that takes longer to tell."""
        if isinstance(formula, Leaf):
            return _holds(formula.assertion, kind)
        if isinstance(formula, Constant):
            return formula.value
        if level >= _MAX_LEVELS:
            return None
        if isinstance(formula, Not):
            fits = self._fits(formula.item, kind, level + 1)
            return None if fits is None else not fits
        if isinstance(formula, All | Any):
            decided = isinstance(formula, Any)
            unsure = False
            for part in formula.parts:
                fits = self._fits(part, kind, level + 1)
                if fits is decided:
                    return decided
                unsure = unsure or fits is None
            return None if unsure else not decided
        return self._fits(self._grammar.places[formula.number], kind, level + 1)


def _holds(about: Assertion, kind: JsonType) -> bool | None:
    if isinstance(about, Types):
        return kind in about.types
    if ABOUT[type(about)] is not kind:
        return True
    if isinstance(about, Numbers | NumberChoices):
        # Of multiples only some may be listed.
        is_listed = isinstance(about, Numbers) and about.multiple_of is not None
        return None if is_listed else holds(about, _ZERO)
    if isinstance(about, Length | ItemCount | MemberCount | Contains):
        return about.low == 0
    if isinstance(about, StringChoices):
        return "" in about.values
    if isinstance(about, Booleans):
        return True in about.values
    if isinstance(about, Matches):
        return None
    return not isinstance(about, Has)
