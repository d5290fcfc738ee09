"""Formulas for values of one type: assertions about other types are removed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import Final

from guided.json_schema.formulas.assertions import (
    ASSERTED_TYPE,
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
    evaluate,
    parts_of,
    postorder,
)
from guided.json_schema.formulas.values import Json
from guided.runtime.work_budget import spend

__all__ = ["MAX_INLINED_NODES", "Inliner", "Restriction"]

MAX_INLINED_NODES: Final = 30
"""The most nodes inlined in one, itself included. Keeps out recursion and schemas that fan out."""
MAX_INLINED_LEVELS: Final = 30
"""The most containers inlined inside one another; each takes five nested calls."""


class Inliner:
    """Replaces small schema nodes by their formulas, which are interned by structure.

    So nodes of different parts of the schema that ask the same become one formula, whose results
    are computed once. The meaning stays the same, so any node may also stay as it is.
    """

    def __init__(self, formulas: Formulas) -> None:
        self.formulas = formulas
        self._cache: dict[SchemaNode, Formula] = {}
        """The results of ``inline`` by node."""
        self.origin: dict[Formula, SchemaNode | None] = {}
        """The node that a formula came from, whose place errors name; ``None`` if it is not the
        only one: others say the same, or say it together."""

    def inline(self, formula: Formula) -> Formula:
        """Return the formula of a small node with all its inner nodes inlined.

        Large nodes and other formulas are returned as they are.
        """
        if not isinstance(formula, SchemaNode):
            return formula
        found = self._cache.get(formula)
        if found is None:
            try:
                found = _Inlining(self).visit(formula)
            except _TooLargeError:
                found = formula
            self._cache[formula] = found
        return found

    def join(self, parts: Iterable[Formula]) -> Formula:
        """Return the conjunction of inlined formulas; unless it is one of them, no node says it."""
        parts = list(parts)
        joined = self.formulas.all_of(parts)
        if joined not in parts:
            self.origin[joined] = None
        return joined

    def note_origin(self, formula: Formula, node: SchemaNode) -> None:
        """Note that a formula is that of a node, with the nodes in it inlined."""
        if self.origin.setdefault(formula, node) is not node:
            self.origin[formula] = None


class _Inlining:
    """Inlines the nodes in one node, once, and notes where each formula came from."""

    def __init__(self, inliner: Inliner) -> None:
        self._inliner = inliner
        self._formulas = inliner.formulas
        self._nodes_left = MAX_INLINED_NODES
        self._levels_left = MAX_INLINED_LEVELS

    def visit(self, formula: Formula) -> Formula:
        """Return a formula with the nodes in it inlined; raises _TooLargeError if they are many."""
        return self._formulas.replace(formula, self._inline)

    def _inline(self, part: Leaf | SchemaNode) -> Formula:
        """Return a leaf with the nodes in it inlined, or the formula of a node."""
        if isinstance(part, Leaf):
            self._levels_left -= 1
            if self._levels_left < 0:
                raise _TooLargeError
            assertion = _replace_children(part.assertion, self.visit)
            self._levels_left += 1
            return part if assertion is part.assertion else self._formulas.leaf(assertion)
        # Before the descent, which a long chain of references would make too deep. A node that is
        # met twice counts twice, so one that contains itself ends here too.
        self._nodes_left -= 1
        if self._nodes_left < 0:
            raise _TooLargeError
        inlined = self.visit(part.formula)
        # References to one schema have that schema as their origin.
        self._inliner.note_origin(inlined, part.target)
        return inlined


class _TooLargeError(Exception):
    """A node with too many nodes or levels inside, or that contains itself."""


def _replace_children(assertion: Assertion, visit: Callable[[Formula], Formula]) -> Assertion:
    """Return the assertion with ``visit`` applied to the formulas inside; itself if none changes.

    Assertions that are not listed here keep their nodes, which means the same. ``Unique`` need not
    be: the formulas in it are of values that were read, and hold no nodes. Raises what ``visit``
    raises.
    """
    if isinstance(assertion, Members):
        named = tuple((name, visit(child)) for name, child in assertion.named)
        patterns = tuple((pattern, visit(child)) for pattern, child in assertion.patterns)
        return _keep_if_equal(assertion, Members(named, patterns, visit(assertion.rest)))
    if isinstance(assertion, Items):
        return _keep_if_equal(
            assertion, Items(tuple(map(visit, assertion.prefix)), visit(assertion.rest))
        )
    if isinstance(assertion, Contains):
        return _keep_if_equal(assertion, replace(assertion, item=visit(assertion.item)))
    if isinstance(assertion, Names):
        return _keep_if_equal(assertion, Names(visit(assertion.name)))
    return assertion


def _keep_if_equal(old: Assertion, new: Assertion) -> Assertion:
    """Return ``old`` if the two are equal, so that callers see by identity that nothing changed."""
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
        self.inliner = Inliner(formulas)
        """The one that the rules of members and items share: errors read its ``origin``."""
        self._by_type: dict[JsonType, dict[Formula, Formula]] = {
            kind: {TRUE: TRUE, FALSE: FALSE} for kind in JsonType
        }
        """The results of ``to_type``, by type and formula."""
        self._types: dict[Formula, frozenset[JsonType]] = {}
        """The results of ``types`` by formula."""
        self._booleans: dict[tuple[Formula, bool], bool] = {}
        """The results of ``fits_boolean`` by its arguments."""

    def to_type(self, kind: JsonType, formula: Formula) -> Formula:
        """Return what ``formula`` asks of values of this type: nodes resolved, other types removed.

        Formulas inside assertions are left as they are: they are about other values. So this ends:
        only through them may a formula lead back to itself (``reader.lowering_check``).
        """
        known = self._by_type[kind]
        found = known.get(formula)
        if found is None:
            if isinstance(formula, Leaf):
                found = known[formula] = self._restrict(kind, formula)
                return found
            for node in postorder(formula, known, functools.partial(self._parts_with, kind)):
                known[node] = self._restrict(kind, node) if kind in self.types(node) else FALSE
            found = known[formula]
        return found

    def types(self, formula: Formula) -> frozenset[JsonType]:
        """Return a superset of the types of values that fit, by the ``Types`` assertions alone."""
        found = self._types.get(formula)
        if found is None:
            if isinstance(formula, Leaf):
                found = self._types[formula] = self._types_of(formula)
                return found
            for node in postorder(formula, self._types, _resolved_parts):
                self._types[node] = self._types_of(node)
            found = self._types[formula]
        return found

    def _parts_with(self, kind: JsonType, formula: Formula) -> tuple[Formula, ...]:
        """Return the resolved operands of a formula; none if it has no values of this type."""
        return _resolved_parts(formula) if kind in self.types(formula) else ()

    def _types_of(self, formula: Formula) -> frozenset[JsonType]:
        """Compute ``types`` for a formula whose parts are cached; a negation may have any."""
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

    def _restrict(self, kind: JsonType, formula: Formula) -> Formula:
        """Compute ``to_type`` for a formula whose parts are cached.

        Assertions about other types hold of every value of this type, so they become TRUE.
        """
        spend(1 + 2 * len(formula.parts) if isinstance(formula, AllOf | AnyOf) else 1)
        formulas = self.formulas
        match formula:
            case SchemaNode():
                return self.to_type(kind, formula.formula)
            case Leaf(Types(types)):
                return TRUE if kind in types else FALSE
            case Leaf(assertion):
                return formula if ASSERTED_TYPE[type(assertion)] is kind else TRUE
            case Not(item):
                return formulas.negate(self.to_type(kind, item))
            case AllOf(parts):
                # not 1 and not 2 -> not (1 or 2)
                opposites = [formulas.negate(self.to_type(kind, part)) for part in parts]
                return formulas.all_of(map(formulas.negate, self._join_lists(opposites)))
            case AnyOf(parts):
                return formulas.any_of(self._join_lists(self.to_type(kind, part) for part in parts))
            case _:
                return formula

    def _join_lists(self, alternatives: Iterable[Formula]) -> list[Formula]:
        """Return the alternatives, with all lists of numbers joined into one, and all of strings.

        Other alternatives keep their order, and equal ones become one.
        """
        found: dict[Formula | type, Formula] = {}
        listed: dict[type[NumberChoices | StringChoices], list[tuple[Json, ...]]] = {}
        for part in alternatives:
            assertion = part.assertion if isinstance(part, Leaf) else None
            if not isinstance(assertion, NumberChoices | StringChoices):
                found[part] = part
                continue
            # The joined list stands where the first list of its kind stood.
            kind = type(assertion)
            listed.setdefault(kind, []).append(assertion.values)
            found.setdefault(kind, part)
        # One list is one automaton; many lists side by side would be a product of them.
        for kind, lists in listed.items():
            if len(lists) > 1:
                spend(sum(map(len, lists)))
                values = dict.fromkeys(chain.from_iterable(lists))
                found[kind] = self.formulas.leaf(kind(tuple(values)))
        return list(found.values())

    def fits_null(self, formula: Formula) -> bool:
        """Return whether the JSON value ``null`` fits a formula."""
        left = self.to_type(JsonType.NULL, formula)
        assert isinstance(left, Constant), left
        return left.value

    def fits_boolean(self, formula: Formula, value: bool) -> bool:
        """Return whether the JSON value ``true`` or ``false`` fits a formula."""
        key = (formula, value)
        if key not in self._booleans:

            def leaf(node: Leaf) -> bool:
                assert isinstance(node.assertion, Booleans), node
                return value in node.assertion.values

            self._booleans[key] = evaluate(self.to_type(JsonType.BOOLEAN, formula), leaf)
        return self._booleans[key]


def _resolved_parts(formula: Formula) -> tuple[Formula, ...]:
    """Return the operands of a formula; the formula of a node counts as its operand."""
    return (formula.formula,) if isinstance(formula, SchemaNode) else parts_of(formula)
