"""Formulas for values of one type: assertions about other types are removed."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from typing import Final

from guided.json_schema.formulas.assertions import (
    ABOUT,
    Assertion,
    Booleans,
    Contains,
    Items,
    JsonType,
    Members,
    Names,
    NumberChoices,
    StringChoices,
    Types,
)
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    AllOf,
    AnyOf,
    Constant,
    Formula,
    Formulas,
    Leaf,
    Not,
    SchemaNode,
    parts_of,
)
from guided.json_schema.formulas.values import Json
from guided.runtime.fuel import spend

__all__ = ["MAX_NODES", "Restriction", "Sharing"]

MAX_LEVELS: Final = 3
"""Levels of nesting searched in a node: deeper nodes are rarely equal by chance."""
MAX_NODES: Final = 30
"""The most nodes written out inside one."""


class Sharing:
    """Writes small nodes out in full, where formulas are interned by what they ask.

    Nodes of different places that ask the same then are one formula, and what is computed for it is
    computed once. The meaning stays the same, so any node may also be left as it is.
    """

    def __init__(self, formulas: Formulas) -> None:
        self.formulas = formulas
        self._known: dict[SchemaNode, Formula] = {}

    def of(self, formula: Formula) -> Formula:
        """Return the formula of a node instead of the node, if that is small.

        Results are kept by node. Anything else is returned as it is.
        """
        if not isinstance(formula, SchemaNode):
            return formula
        found = self._known.get(formula)
        if found is None:
            found = self._known[formula] = self._written_out(formula)
        return found

    def _written_out(self, node: SchemaNode) -> Formula:
        """Return the formula of a node with small nodes written out; the node itself if too large.

        ``left`` is how many nodes may still be written out: a list, so inner functions share it.
        """
        left = [MAX_NODES]

        def inline(node: Leaf | SchemaNode, level: int) -> Formula:
            if isinstance(node, Leaf):
                about = _with_children(node.assertion, lambda child: visit(child, level - 1))
                return node if about is node.assertion else self.formulas.leaf(about)
            # Two bounds: depth keeps out recursion, the count keeps out schemas that fan out.
            left[0] -= 1
            if level == 0 or left[0] < 0:
                raise _TooLargeError
            return visit(node.formula, level - 1)

        def visit(formula: Formula, level: int) -> Formula:
            return self.formulas.replace(formula, lambda node: inline(node, level))

        try:
            return visit(node, MAX_LEVELS)
        except _TooLargeError:
            return node


class _TooLargeError(Exception):
    """A node that leads too deep, or into itself."""


def _with_children(about: Assertion, visit: Callable[[Formula], Formula]) -> Assertion:
    """Return the assertion with ``visit`` applied to the formulas inside; itself if none changes.

    Any other assertion keeps its nodes, which is also right, only not shared; so does ``Unique``,
    as no schema writes formulas into it.
    """
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


_ALL_TYPES: Final = frozenset(JsonType)


class Restriction:
    """Restricts formulas of one grammar to the values of one JSON type, each once.

    For values of that type the result holds where the formula does. It has no nodes, and no
    assertions about other types; formulas inside assertions about members and items are left as
    they were, as these are about other values.
    """

    def __init__(self, formulas: Formulas) -> None:
        self.formulas = formulas
        self.sharing = Sharing(formulas)
        self._known: dict[JsonType, dict[Formula, Formula]] = {
            kind: {TRUE: TRUE, FALSE: FALSE} for kind in JsonType
        }
        """The results of ``to``, by type and formula."""
        self._types: dict[Formula, frozenset[JsonType]] = {}
        self._booleans: dict[tuple[Formula, bool], bool] = {}

    def to(self, kind: JsonType, formula: Formula) -> Formula:
        """Return what ``formula`` asks of values of this type: nodes resolved, other types removed.

        Results are kept by type and formula. Formulas inside assertions are left as they are: they
        are about other values.
        """
        known = self._known[kind]
        found = known.get(formula)
        if found is None:
            if isinstance(formula, Leaf):
                found = known[formula] = self._restricted(kind, formula)
                return found
            for node in self._inside_first(formula, known, kind):
                known[node] = self._restricted(kind, node) if kind in self.types(node) else FALSE
            found = known[formula]
        return found

    def types(self, formula: Formula) -> frozenset[JsonType]:
        """Return the types of values that may fit, as far as assertions about types alone decide.

        Never too few: for a negation, all types.
        """
        found = self._types.get(formula)
        if found is None:
            if isinstance(formula, Leaf):
                found = self._types[formula] = self._types_of(formula)
                return found
            for node in self._inside_first(formula, self._types, None):
                self._types[node] = self._types_of(node)
            found = self._types[formula]
        return found

    def _inside_first(
        self, formula: Formula, known: Container[Formula], kind: JsonType | None
    ) -> Iterator[Formula]:
        """Yield the formulas inside one, itself last; each must be known before the next request.

        For what has no values of ``kind``, only itself. Formulas nest deeper than calls may.
        """
        stack = [formula]
        while stack:
            node = stack[-1]
            waiting = []
            if kind is None or kind in self.types(node):
                waiting = [part for part in self._inside(node) if part not in known]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            stack.pop()
            if node not in known:
                yield node

    def _inside(self, formula: Formula) -> tuple[Formula, ...]:
        if isinstance(formula, SchemaNode):
            return (formula.formula,)
        return parts_of(formula)

    def _types_of(self, formula: Formula) -> frozenset[JsonType]:
        """Compute ``types`` for a formula whose parts are known; a negation may have any.

        It may name too many types, never too few: values of a type that is left out are never
        tried.
        """
        spend(1)
        match formula:
            case Leaf(Types(types)):
                return types
            case Leaf():
                return _ALL_TYPES
            case AllOf(parts):
                return _ALL_TYPES.intersection(*map(self.types, parts))
            case AnyOf(parts):
                return frozenset().union(*map(self.types, parts))
            case SchemaNode():
                return self.types(formula.formula)
            case Constant(value):
                return _ALL_TYPES if value else frozenset()
            case _:
                return _ALL_TYPES

    def _restricted(self, kind: JsonType, formula: Formula) -> Formula:
        """Compute ``to`` for a formula whose parts are known.

        Assertions about other types hold of every value of this type, so they become TRUE.
        """
        spend(1 + 2 * len(formula.parts) if isinstance(formula, AllOf | AnyOf) else 1)
        formulas = self.formulas
        match formula:
            case SchemaNode():
                return self.to(kind, formula.formula)
            case Leaf(Types(types)):
                return TRUE if kind in types else FALSE
            case Leaf(assertion):
                return formula if ABOUT[type(assertion)] is kind else TRUE
            case Not(item):
                return formulas.negate(self.to(kind, item))
            case AllOf(parts):
                # not 1 and not 2 -> not (1 or 2)
                opposites = [formulas.negate(self.to(kind, part)) for part in parts]
                return formulas.all_of(map(formulas.negate, self._listed_as_one(opposites)))
            case AnyOf(parts):
                return formulas.any_of(self._listed_as_one(self.to(kind, part) for part in parts))
            case _:
                return formula

    def _listed_as_one(self, alternatives: Iterable[Formula]) -> list[Formula]:
        """Return the alternatives; those that list numbers or strings become one list per kind.

        All others keep their places, and equal ones become one.
        """
        found: dict[Formula | type, Formula] = {}
        listed: dict[type[NumberChoices | StringChoices], dict[Json, None]] = {}
        for part in alternatives:
            about = part.assertion if isinstance(part, Leaf) else None
            if not isinstance(about, NumberChoices | StringChoices):
                found[part] = part
                continue
            # The joined list stands where the first list of its kind stood.
            kind = type(about)
            listed.setdefault(kind, {}).update(dict.fromkeys(about.values))
            found.setdefault(kind, part)
        # One list is one automaton; many lists side by side would be a product of them.
        for kind, values in listed.items():
            found[kind] = self.formulas.leaf(kind(tuple(values)))
        return list(found.values())

    def null(self, formula: Formula) -> bool:
        """Return whether null fits: no assertion is about null alone, so a constant is left."""
        left = self.to(JsonType.NULL, formula)
        assert isinstance(left, Constant), left
        return left.value

    def boolean(self, formula: Formula, value: bool) -> bool:
        """Return whether a boolean fits: what is left for booleans asks only about their values.

        Results are kept by formula and value; a constant is left once every leaf is decided.
        """
        key = (formula, value)
        if key not in self._booleans:

            def leaf(node: Leaf | SchemaNode) -> Formula:
                assert isinstance(node, Leaf) and isinstance(node.assertion, Booleans), node
                return TRUE if value in node.assertion.values else FALSE

            left = self.formulas.replace(self.to(JsonType.BOOLEAN, formula), leaf)
            assert isinstance(left, Constant), left
            self._booleans[key] = left.value
        return self._booleans[key]
