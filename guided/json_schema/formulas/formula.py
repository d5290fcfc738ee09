"""Boolean formulas over assertions: what a value has to fit, in any nesting of and, or and not.

Formulas are interned by the ``Formulas`` that made them, so equal ones are the same object and
may be compared and hashed by identity. They are simplified as they are made: what is left after an
assertion was decided is a smaller formula, and two ways to the same remainder meet in one object.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final, TypeAlias

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import Assertion
from guided.runtime.fuel import pause_if_due, spend

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
    "inside_first",
    "leaves_of",
    "parts_of",
    "truth_vector",
]

_FORMULA_BYTES: Final = 600
"""About how many bytes a formula takes, with what a machine knows about it."""
MAX_DEPTH: Final = 2_000
"""Formulas nested in each other; no search would get through deeper ones."""
_OFTEN: Final = 256
"""Formulas evaluated between two checks whether it is time to pause."""


class _Node:
    """Has a ``repr`` that shows how it is made."""

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
    """A schema object that the root leads to: its number, where it was written, its formula.

    Only through nodes do formulas refer to each other in circles. This is also the one place where
    the intermediate form is lazy: a thunk makes the formula when it is first needed, since an
    answer reaches few of the nodes of a large schema.
    """

    __match_args__: Final = ("number", "pointer")
    __slots__ = ("_formula", "_lower", "number", "pointer")

    def __init__(self, number: int, pointer: str, lower: Callable[[], Formula]) -> None:
        self.number: Final = number
        self.pointer: Final = pointer
        """The JSON pointer of the schema object."""
        self._lower: Final = lower
        self._formula: Formula | None = None

    @property
    def formula(self) -> Formula:
        """What a value has to fit here.

        Always the same object once it is made. It may raise what lowering raises, unless the schema
        was found sound (``soundness``).
        """
        found = self._formula
        if found is None:
            # Lowering may run out of fuel. Then nothing is kept, and the next call begins again.
            found = self._formula = self._lower()
        return found


Formula: TypeAlias = Constant | Leaf | Not | AllOf | AnyOf | SchemaNode
TRUE: Final = Constant(True)
FALSE: Final = Constant(False)


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """Return the formulas directly inside a formula; the formula of a node does not count.

    Empty for leaves, constants and nodes.
    """
    if isinstance(formula, AllOf | AnyOf):
        return formula.parts
    return (formula.item,) if isinstance(formula, Not) else ()


def conjuncts(formula: Formula) -> tuple[Formula, ...]:
    """Return the formulas that all hold if this one does, as far as it says so outright."""
    return formula.parts if isinstance(formula, AllOf) else (formula,)


def inside_first(formula: Formula, known: Container[Formula]) -> Iterator[Formula]:
    """Yield a formula and those inside it, itself last, except for those that are known.

    Each must be known before the next one is requested. Formulas nest deeper than calls may.
    """
    stack = [formula]
    while stack:
        node = stack[-1]
        waiting = [part for part in parts_of(node) if part not in known]
        if waiting:
            stack.extend(reversed(waiting))
            continue
        stack.pop()
        if node not in known:
            yield node


class Formulas:
    """Makes and interns formulas.

    All are kept as long as this object, by what they are made of: so equal ones stay the same
    object.
    """

    def __init__(self) -> None:
        self._leaves: dict[Assertion, Leaf] = {}
        self._nots: dict[Formula, Formula] = {}
        self._joined: dict[tuple[type[AllOf | AnyOf], tuple[Formula, ...]], Formula] = {}
        self._depths: dict[Formula, int] = {}
        """The depth of each formula that has parts; any other has depth 0."""

    def leaf(self, assertion: Assertion) -> Leaf:
        """Return the formula that a single assertion makes.

        Assertions are compared by value, and the formulas inside them by identity: these have to
        belong to this object too.
        """
        found = self._leaves.get(assertion)
        if found is None:
            found = self._leaves[assertion] = Leaf(assertion)
        return found

    def negate(self, formula: Formula) -> Formula:
        """Return the opposite.

        Double negations cancel; nothing else is moved inside, so it costs nothing.
        """
        if isinstance(formula, Constant):
            return FALSE if formula.value else TRUE
        if isinstance(formula, Not):
            return formula.item
        found = self._nots.get(formula)
        if found is None:
            found = self._nots[formula] = self._new(Not(formula), (formula,))
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
        # Parts before what they are part of, on a stack of our own: formulas nest deeper than calls
        # may. ``known`` makes sure that a shared part is replaced once.
        known: dict[Formula, Formula] = {TRUE: TRUE, FALSE: FALSE}
        stack: list[Formula] = [formula]
        while stack:
            node = stack[-1]
            waiting: list[Formula] = []
            for part in parts_of(node):
                if part not in known:
                    if isinstance(part, Leaf | SchemaNode):
                        known[part] = leaf(part)
                    else:
                        waiting.append(part)
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if node not in known:
                known[node] = self._with_parts(node, known)
        spend(2 * len(known) - 3)
        return known[formula]

    def _with_parts(self, node: Formula, known: dict[Formula, Formula]) -> Formula:
        """Return a formula with each of its parts replaced by its replacement in ``known``."""
        if isinstance(node, Not):
            inner = known[node.item]
            return node if inner is node.item else self.negate(inner)
        assert isinstance(node, AllOf | AnyOf), node
        parts = [known[part] for part in node.parts]
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
        """Compute ``all_of`` and ``any_of``, simplified and interned.

        ``neutral`` parts are left out; an ``absorbing`` one is the result, and so it is with a part
        and its opposite. Parts of the same kind are flattened. The order of parts is kept, so the
        same parts in another order are another formula. Members are written in the order in which
        parts name them.
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
        found = self._joined.get(key)
        if found is None:
            found = self._joined[key] = self._new(kind(key[1]), key[1])
        return found

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, with what is known about each formula elsewhere."""
        return _FORMULA_BYTES * (len(self._depths) + len(self._leaves))

    def _new(self, formula: Formula, parts: tuple[Formula, ...]) -> Formula:
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


def leaves_of(asks: Iterable[Formula]) -> list[Leaf]:
    """Return the assertions of formulas, each once, in the order in which they are written.

    Those in a schema node, or in the formulas inside an assertion, are left out. Callers rely on
    the order: an object takes the order of its names from it.
    """
    found: dict[Leaf, None] = {}
    seen: set[Formula] = set()
    stack = list(reversed(list(asks)))
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


def truth_vector(holding: Iterable[bool]) -> int:
    """Return one number that says which of several formulas hold: bit ``i`` for the ``i``-th."""
    return sum([holds << number for number, holds in enumerate(holding)])


def evaluate(formula: Formula, leaf: Callable[[Leaf], bool]) -> bool:
    """Return the value of a formula by a function that decides assertions, called once for each.

    Only for formulas without schema nodes, as ``Restriction.to`` makes them.
    """
    if isinstance(formula, Leaf):
        return leaf(formula)
    known: dict[Formula, bool] = {TRUE: True, FALSE: False}
    begun: list[tuple[Formula, int]] = [(formula, 0)]  # each with the first part still to be asked
    while begun:
        node, at = begun.pop()
        if node in known:
            continue
        if not len(known) % _OFTEN:
            pause_if_due()
        if isinstance(node, Leaf):
            known[node] = leaf(node)
            continue
        assert isinstance(node, Not | AllOf | AnyOf), node
        # A true part decides AnyOf, a false one AllOf: later parts are not evaluated.
        parts, decisive = parts_of(node), isinstance(node, AnyOf)
        while at < len(parts) and known.get(parts[at]) is (not decisive):
            at += 1
        if at < len(parts) and parts[at] not in known:
            begun += ((node, at), (parts[at], 0))
        elif isinstance(node, Not):
            known[node] = not known[node.item]
        else:
            known[node] = decisive if at < len(parts) else not decisive
    spend(len(known))
    return known[formula]
