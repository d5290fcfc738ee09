"""Formulas for values of one type: what speaks about other types falls away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any as Json
from typing import Final

from guided.automata.fuel import spend
from guided.grammar.assertions import (
    ABOUT,
    Booleans,
    JsonType,
    NumberChoices,
    StringChoices,
    Types,
)
from guided.grammar.formula import (
    FALSE,
    TRUE,
    All,
    Any,
    Constant,
    Formula,
    Leaf,
    Not,
    Place,
)
from guided.grammar.json_grammar import JsonGrammar
from guided.recognizer.depth import MAX_LEVELS, too_deep
from guided.recognizer.sharing import Sharing

__all__ = ["Restriction"]


_ALL_TYPES: Final = frozenset(JsonType)


class Restriction:
    """Restricts formulas of one grammar, each once."""

    def __init__(self, grammar: JsonGrammar) -> None:
        self.grammar = grammar
        self.sharing = Sharing(grammar)
        self._known: dict[JsonType, dict[Formula, Formula]] = {kind: {} for kind in JsonType}
        self._types: dict[Formula, frozenset[JsonType]] = {}
        self._booleans: dict[tuple[Formula, bool], bool] = {}
        self._level = 0
        """Formulas being looked into, each inside of the one before."""

    def to(self, kind: JsonType, formula: Formula) -> Formula:
        """What ``formula`` says about values of this type: places resolved, other types gone."""
        if isinstance(formula, Constant):
            return formula
        known = self._known[kind]
        found = known.get(formula)
        if found is None:
            allowed = kind in self.types(formula)
            self._enter()
            try:
                found = known[formula] = self._restricted(kind, formula) if allowed else FALSE
            finally:
                self._level -= 1
        return found

    def types(self, formula: Formula) -> frozenset[JsonType]:
        """The types of the values that may fit, as far as assertions about types alone say."""
        found = self._types.get(formula)
        if found is None:
            self._enter()
            try:
                found = self._types[formula] = self._types_of(formula)
            finally:
                self._level -= 1
        return found

    def _enter(self) -> None:
        if self._level >= MAX_LEVELS:
            raise too_deep(MAX_LEVELS)
        self._level += 1

    def _types_of(self, formula: Formula) -> frozenset[JsonType]:
        spend(1)
        match formula:
            case Leaf(Types(types)):
                return types
            case Leaf():
                return _ALL_TYPES
            case All(parts):
                return _ALL_TYPES.intersection(*map(self.types, parts))
            case Any(parts):
                return frozenset().union(*map(self.types, parts))
            case Place(number):
                return self.types(self.grammar.places[number])
            case Constant(value):
                return _ALL_TYPES if value else frozenset()
            case _:
                return _ALL_TYPES

    def _restricted(self, kind: JsonType, formula: Formula) -> Formula:
        spend(1 + 2 * len(formula.parts) if isinstance(formula, All | Any) else 1)
        formulas = self.grammar.formulas
        match formula:
            case Place(number):
                return self.to(kind, self.grammar.places[number])
            case Leaf(Types(types)):
                return TRUE if kind in types else FALSE
            case Leaf(assertion):
                return formula if ABOUT[type(assertion)] is kind else TRUE
            case Not(item):
                return formulas.negate(self.to(kind, item))
            case All(parts):
                # not 1 and not 2 -> not (1 or 2)
                opposites = [formulas.negate(self.to(kind, part)) for part in parts]
                return formulas.all_of(map(formulas.negate, self._listed_as_one(opposites)))
            case Any(parts):
                return formulas.any_of(self._listed_as_one(self.to(kind, part) for part in parts))
            case _:
                return formula

    def _listed_as_one(self, alternatives: Iterable[Formula]) -> list[Formula]:
        """The alternatives, those that list numbers or strings as one list."""
        found: dict[Formula | type, Formula] = {}
        listed: dict[type[NumberChoices | StringChoices], dict[Json, None]] = {}
        for part in alternatives:
            about = part.assertion if isinstance(part, Leaf) else None
            if not isinstance(about, NumberChoices | StringChoices):
                found[part] = part
                continue
            # What lists the same kind stands where the first of it stood.
            kind = type(about)
            listed.setdefault(kind, {}).update(dict.fromkeys(about.values))
            found.setdefault(kind, part)
        for kind, values in listed.items():
            found[kind] = self.grammar.formulas.leaf(kind(tuple(values)))
        return list(found.values())

    def null(self, formula: Formula) -> bool:
        """Whether null fits."""
        left = self.to(JsonType.NULL, formula)
        assert isinstance(left, Constant), left
        return left.value

    def boolean(self, formula: Formula, value: bool) -> bool:
        """Whether a boolean fits."""
        key = (formula, value)
        if key not in self._booleans:

            def leaf(node: Leaf | Place) -> Formula:
                assert isinstance(node, Leaf) and isinstance(node.assertion, Booleans), node
                return TRUE if value in node.assertion.values else FALSE

            left = self.grammar.formulas.replace(self.to(JsonType.BOOLEAN, formula), leaf)
            assert isinstance(left, Constant), left
            self._booleans[key] = left.value
        return self._booleans[key]
