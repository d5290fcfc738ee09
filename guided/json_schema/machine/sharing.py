"""Places that say the same become one formula, so that all that is worked out for it is shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from guided.json_schema.formulas.assertions import Assertion, Contains, Items, Members, Names
from guided.json_schema.formulas.formula import Formula, Leaf, Place
from guided.json_schema.formulas.json_grammar import JsonGrammar

__all__ = ["Sharing"]

MAX_LEVELS: Final = 3
"""Levels of nesting that a place is looked into: deeper ones rarely say the same by chance."""
MAX_PLACES: Final = 30
"""Places written out inside of one at most."""


class Sharing:
    """Writes small places out in full, where formulas are interned by what they say."""

    def __init__(self, grammar: JsonGrammar) -> None:
        self.grammar = grammar
        self.formulas = grammar.formulas
        self._known: dict[int, Formula] = {}

    def of(self, formula: Formula) -> Formula:
        """The formula of a place instead of its number, if that is small."""
        if not isinstance(formula, Place):
            return formula
        found = self._known.get(formula.number)
        if found is None:
            found = self._known[formula.number] = self._written_out(formula)
        return found

    def _written_out(self, place: Place) -> Formula:
        left = [MAX_PLACES]

        def inline(node: Leaf | Place, level: int) -> Formula:
            if isinstance(node, Leaf):
                about = _with_children(node.assertion, lambda child: visit(child, level - 1))
                return node if about is node.assertion else self.formulas.leaf(about)
            left[0] -= 1
            if level == 0 or left[0] < 0:
                raise _TooLargeError
            return visit(self.grammar.places[node.number], level - 1)

        def visit(formula: Formula, level: int) -> Formula:
            return self.formulas.replace(formula, lambda node: inline(node, level))

        try:
            return visit(place, MAX_LEVELS)
        except _TooLargeError:
            return place


class _TooLargeError(Exception):
    """A place leads too deep, or into itself."""


def _with_children(about: Assertion, visit: Callable[[Formula], Formula]) -> Assertion:
    """The assertion with ``visit`` applied to the formulas inside it; itself if none changes."""
    if isinstance(about, Members):
        named = tuple((name, visit(child)) for name, child in about.named)
        patterns = tuple((pattern, visit(child)) for pattern, child in about.patterns)
        return _unless_same(about, Members(named, patterns, visit(about.rest)))
    if isinstance(about, Items):
        return _unless_same(about, Items(tuple(map(visit, about.prefix)), visit(about.rest)))
    if isinstance(about, Contains):
        return _unless_same(about, replace(about, item=visit(about.item)))
    if isinstance(about, Names):
        return _unless_same(about, Names(visit(about.name)))
    return about


def _unless_same(old: Assertion, new: Assertion) -> Assertion:
    return old if old == new else new
