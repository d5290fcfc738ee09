"""Boolean formulas over assertions: what a value has to fit, in any nesting of and, or and not.

Formulas are interned by the ``Formulas`` that made them, so equal ones are the same object and
may be compared and hashed by identity. They are simplified as they are made: once an assertion is
decided, a smaller formula is left, and equal remainders are the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final, TypeAlias

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import Assertion
from guided.runtime.work_budget import pause_if_due, spend

__all__ = [
    "FALSE",
    "TRUE",
    "AllOf",
    "AnyOf",
    "Constant",
    "Formula",
    "Formulas",
    "Leaf",
    "Not",
    "SchemaNode",
    "conjuncts",
    "evaluate",
    "leaves_of",
    "pack_truth_vector",
    "parts_of",
    "postorder",
]

_FORMULA_BYTES: Final = 600
"""About how many bytes a formula takes, including what a machine stores for it."""
MAX_DEPTH: Final = 2_000
"""Formulas nested in each other; no search would get through deeper ones."""
_PAUSE_EVERY: Final = 256
"""The number of formulas evaluated between two checks whether to yield to other work."""


class _Node:
    """The base of formulas: a ``repr`` that shows the constructor call."""

    __slots__ = ()

    def __repr__(self) -> str:
        names: tuple[str, ...] = type(self).__match_args__  # type: ignore[attr-defined]
        fields = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__name__}({fields})"


class Constant(_Node):
    """Holds of every value, or of none."""

    __match_args__: Final = ("value",)
    __slots__ = ("value",)

    def __init__(self, value: bool) -> None:
        self.value: Final = value


class Leaf(_Node):
    """An assertion."""

    __match_args__: Final = ("assertion",)
    __slots__ = ("assertion",)

    def __init__(self, assertion: Assertion) -> None:
        self.assertion: Final = assertion


class Not(_Node):
    """The formula does not hold."""

    __match_args__: Final = ("item",)
    __slots__ = ("item",)

    def __init__(self, item: Formula) -> None:
        self.item: Final = item


class AllOf(_Node):
    """Every part holds."""

    __match_args__: Final = ("parts",)
    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Formula, ...]) -> None:
        self.parts: Final = parts


class AnyOf(_Node):
    """At least one part holds."""

    __match_args__: Final = ("parts",)
    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Formula, ...]) -> None:
        self.parts: Final = parts


class SchemaNode(_Node):
    """A schema object that is reachable from the root: its index, its JSON pointer and its formula.

    Only through nodes can formulas refer to each other in cycles. Nodes are also where the
    intermediate form is lazy: ``lower`` makes the formula when it is first needed, since an answer
    reaches few of the nodes of a large schema.
    """

    __match_args__: Final = ("index", "pointer")
    __slots__ = ("_formula", "_lower", "index", "pointer")

    def __init__(self, index: int, pointer: str, lower: Callable[[], Formula]) -> None:
        self.index: Final = index
        """Its place in ``Lowering.nodes``; ``JsonGrammar.nodes`` is sorted by it, with gaps."""
        self.pointer: Final = pointer
        """The JSON pointer of the schema object."""
        self._lower = lower
        self._formula: Formula | None = None

    @property
    def formula(self) -> Formula:
        """The formula that a value has to fit here; the same object each time.

        May raise what lowering raises, unless ``can_be_lowered`` has excluded that.
        """
        found = self._formula
        if found is None:
            # If lowering exceeds its work budget, nothing is stored: the next call starts over.
            found = self._formula = self._lower()
        return found

    @property
    def target(self) -> SchemaNode:
        """The node that it refers to, if its schema is but a reference; else itself."""
        node = self
        # It ends: the reader refuses a schema that refers to nothing but itself.
        while isinstance(node.formula, SchemaNode):
            node = node.formula
        return node

    def release(self) -> None:
        """Let go of the formula, which may lead back here; the node is not to be used any more."""
        self._formula, self._lower = None, _released


def _released() -> Formula:
    raise AssertionError("a node whose grammar is gone")


Formula: TypeAlias = Constant | Leaf | Not | AllOf | AnyOf | SchemaNode
TRUE: Final = Constant(True)
FALSE: Final = Constant(False)


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """Return the operands of a formula; none for leaves, constants and nodes.

    The formula of a node does not count as its operand.
    """
    if isinstance(formula, AllOf | AnyOf):
        return formula.parts
    return (formula.item,) if isinstance(formula, Not) else ()


def conjuncts(formula: Formula) -> tuple[Formula, ...]:
    """Return the operands of an ``AllOf``; any other formula is its own only conjunct."""
    return formula.parts if isinstance(formula, AllOf) else (formula,)


def postorder(
    formula: Formula,
    visited: Container[Formula],
    inside: Callable[[Formula], tuple[Formula, ...]] = parts_of,
) -> Iterator[Formula]:
    """Yield a formula after all formulas ``inside`` it, except for those in ``visited``.

    The caller adds each to ``visited`` before it requests the next one. Iterative, because formulas
    may nest deeper than the call stack. ``inside`` must not lead from a formula back to itself.
    """
    stack = [formula]
    while stack:
        node = stack[-1]
        unvisited = [part for part in inside(node) if part not in visited]
        if unvisited:
            stack.extend(reversed(unvisited))
            continue
        stack.pop()
        if node not in visited:
            yield node


class Formulas:
    """Makes and interns formulas.

    Every formula is kept as long as this object, keyed by its operands, so equal formulas are the
    same object. Methods raise LimitExceededError for formulas nested deeper than MAX_DEPTH.
    """

    def __init__(self) -> None:
        self._leaves: dict[Assertion, Leaf] = {}
        """The results of ``leaf`` by assertion."""
        self._negations: dict[Formula, Formula] = {}
        """The results of ``negate`` by formula."""
        self._by_parts: dict[tuple[type[AllOf | AnyOf], tuple[Formula, ...]], Formula] = {}
        """Conjunctions and disjunctions by operands."""
        self._depths: dict[Formula, int] = {}
        """The depth of each formula that has parts; any other has depth 0."""

    def leaf(self, assertion: Assertion) -> Leaf:
        """Return the formula of a single assertion.

        Assertions are compared by value, and the formulas inside them by identity: these have to
        belong to this object too.
        """
        found = self._leaves.get(assertion)
        if found is None:
            found = self._leaves[assertion] = Leaf(assertion)
        return found

    def negate(self, formula: Formula) -> Formula:
        """Return the negation.

        Double negations cancel; a negation is not moved inward, so this takes constant time.
        """
        if isinstance(formula, Constant):
            return FALSE if formula.value else TRUE
        if isinstance(formula, Not):
            return formula.item
        found = self._negations.get(formula)
        if found is None:
            found = self._negations[formula] = self._record_depth(Not(formula), (formula,))
        return found

    def all_of(self, formulas: Iterable[Formula]) -> Formula:
        """Return a formula that holds if all of these hold; TRUE if there are none."""
        return self._join(AllOf, formulas, neutral=TRUE, absorbing=FALSE)

    def any_of(self, formulas: Iterable[Formula]) -> Formula:
        """Return a formula that holds if any of these holds; FALSE if there are none."""
        return self._join(AnyOf, formulas, neutral=FALSE, absorbing=TRUE)

    def replace(self, formula: Formula, leaf: Callable[[Leaf | SchemaNode], Formula]) -> Formula:
        """Return the formula with every leaf and node replaced, simplified again.

        ``leaf`` is called once for each, and returns formulas of this object. Formulas inside
        assertions and nodes are left to it.
        """
        if isinstance(formula, Leaf | SchemaNode):
            spend(3)
            return leaf(formula)
        # In postorder, with an explicit stack: formulas may nest deeper than the call stack. Each
        # shared part is replaced once.
        replaced: dict[Formula, Formula] = {TRUE: TRUE, FALSE: FALSE}
        stack: list[Formula] = [formula]
        while stack:
            node = stack[-1]
            unreplaced: list[Formula] = []
            for part in parts_of(node):
                if part not in replaced:
                    if isinstance(part, Leaf | SchemaNode):
                        replaced[part] = leaf(part)
                    else:
                        unreplaced.append(part)
            if unreplaced:
                stack += unreplaced
                continue
            stack.pop()
            if node not in replaced:
                replaced[node] = self._replace_parts(node, replaced)
        spend(2 * len(replaced) - 3)
        return replaced[formula]

    def _replace_parts(self, node: Formula, replaced: dict[Formula, Formula]) -> Formula:
        """Return a formula with each of its operands replaced as ``replaced`` says."""
        if isinstance(node, Not):
            inner = replaced[node.item]
            return node if inner is node.item else self.negate(inner)
        assert isinstance(node, AllOf | AnyOf), node
        parts = [replaced[part] for part in node.parts]
        if all(a is b for a, b in zip(parts, node.parts, strict=True)):
            return node
        return self.all_of(parts) if isinstance(node, AllOf) else self.any_of(parts)

    def _join(
        self,
        kind: type[AllOf | AnyOf],
        formulas: Iterable[Formula],
        *,
        neutral: Constant,
        absorbing: Constant,
    ) -> Formula:
        """Return the conjunction or disjunction of formulas, simplified and interned.

        ``neutral`` parts are left out; the result is ``absorbing`` if that is a part, or if a part
        and its negation are. ``formulas`` is read lazily, no further than an ``absorbing`` part, so
        that readers of schemas need not lower the rest. Parts of the same kind are flattened. The
        order is kept, since members are written in the order in which parts name them; so the same
        parts in another order make another formula.
        """
        parts: dict[Formula, None] = {}
        for formula in formulas:
            for part in formula.parts if isinstance(formula, kind) else (formula,):
                if part is absorbing:
                    return absorbing
                if part is not neutral:
                    parts[part] = None
        spend(1 + len(parts) // 4)
        if len(parts) <= 1:
            return next(iter(parts), neutral)
        for part in parts:
            if isinstance(part, Not) and part.item in parts:
                return absorbing
        key = (kind, tuple(parts))
        found = self._by_parts.get(key)
        if found is None:
            found = self._by_parts[key] = self._record_depth(kind(key[1]), key[1])
        return found

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, including what machines store for each formula."""
        return _FORMULA_BYTES * (len(self._depths) + len(self._leaves))

    def _record_depth(self, formula: Formula, parts: tuple[Formula, ...]) -> Formula:
        """Record the depth of a new formula; raises LimitExceededError past MAX_DEPTH.

        Leaves, constants and nodes are not recorded: their depth is 0, whatever a node leads to.
        """
        depth = 0
        for part in parts:
            depth = max(depth, self._depths.get(part, 0))
        if depth >= MAX_DEPTH:
            raise LimitExceededError(
                "the schema nests too deeply",
                limit=MAX_DEPTH,
                field="constraint",
                hint="put fewer conditions, and fewer references, inside of one another",
            )
        self._depths[formula] = depth + 1
        return formula


def leaves_of(formulas: Iterable[Formula]) -> list[Leaf]:
    """Return the leaves of formulas, each once, in the order in which they are written.

    Those in a schema node, or in the formulas inside an assertion, are left out. Callers rely on
    the order: an object takes the order of its names from it.
    """
    found: dict[Leaf, None] = {}
    seen: set[Formula] = set()
    stack = list(reversed(list(formulas)))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Leaf):
            found[node] = None
        elif isinstance(node, Not):
            stack.append(node.item)
        elif not isinstance(node, Constant | SchemaNode):
            stack.extend(reversed(node.parts))
    spend(1 + len(seen))
    return list(found)


def pack_truth_vector(holding: Iterable[bool]) -> int:
    """Return one number that says which of several formulas hold: bit ``i`` for the ``i``-th."""
    return sum([holds << i for i, holds in enumerate(holding)])


def evaluate(formula: Formula, leaf: Callable[[Leaf], bool]) -> bool:
    """Return the truth value of a formula; ``leaf`` decides a leaf, at most once each.

    Only for formulas without schema nodes, as ``Restriction.to_type`` makes them.
    """
    if isinstance(formula, Leaf):
        return leaf(formula)
    value_of: dict[Formula, bool] = {TRUE: True, FALSE: False}
    # Each formula with the index of the first operand that was not evaluated yet.
    stack: list[tuple[Formula, int]] = [(formula, 0)]
    while stack:
        node, index = stack.pop()
        if node in value_of:
            continue
        if not len(value_of) % _PAUSE_EVERY:
            pause_if_due()
        if isinstance(node, Leaf):
            value_of[node] = leaf(node)
            continue
        assert isinstance(node, Not | AllOf | AnyOf), node
        # A true operand decides AnyOf, a false one AllOf: later operands are not evaluated.
        parts, decisive = parts_of(node), isinstance(node, AnyOf)
        while index < len(parts) and value_of.get(parts[index]) is (not decisive):
            index += 1
        if index < len(parts) and parts[index] not in value_of:
            stack += ((node, index), (parts[index], 0))
        elif isinstance(node, Not):
            value_of[node] = not value_of[node.item]
        else:
            value_of[node] = decisive if index < len(parts) else not decisive
    spend(len(value_of))
    return value_of[formula]
