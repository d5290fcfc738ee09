"""Truth vectors: which of several formulas hold of one value, and which combinations may come up.

A truth vector is a number with one bit for each formula asked of a value; see
``guided.json_schema.formulas.formula.truth_vector``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, truth_vector
from guided.json_schema.formulas.values import Json, formula_of_value
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.shortest_values import ShortestValues

__all__ = ["MAX_ENUMERATED_ASKS", "TruthVectors"]

MAX_ENUMERATED_ASKS: Final = 6
"""For up to this many formulas asked of one value, every truth vector is considered."""


class TruthVectors:
    """The truth vectors of values, regardless of where the values stand.

    ``asks`` are the formulas; bit ``i`` of a vector is for ``asks[i]``. What is remembered is kept
    as long as the machine.
    """

    def __init__(self, restriction: Restriction, scalars: Scalars, values: ShortestValues) -> None:
        self.formulas: Final = restriction.formulas
        self.restriction: Final = restriction
        self.scalars: Final = scalars
        self.values: Final = values
        self._as_formula: dict[tuple[tuple[Formula, ...], tuple[int, ...]], Formula] = {}
        self._likely: dict[tuple[Formula, ...], list[int]] = {}

    def of_value(self, asks: tuple[Formula, ...], value: Json) -> int:
        """Return the truth vector of one value."""
        return truth_vector(self._fits(ask, value) for ask in asks)

    def _fits(self, ask: Formula, value: Json) -> bool:
        """Return whether a value fits a formula; for a container, as far as searches find.

        Scalars are decided exactly. If a search gives up on a container the result is ``False``.
        """
        if isinstance(value, list | dict):
            same = formula_of_value(value, self.formulas)
            return self.values.text(self.formulas.all_of([ask, same])) is not None
        if value is None:
            return self.restriction.null(ask)
        if isinstance(value, bool):
            return self.restriction.boolean(ask, value)
        if isinstance(value, str):
            return self.scalars.strings.fits(self.restriction.to(JsonType.STRING, ask), value)
        return self.scalars.numbers.fits(self.restriction.to(JsonType.NUMBER, ask), value)

    def as_formula(self, goals: tuple[Formula, ...], truths: tuple[int, ...]) -> Formula:
        """Return the formula that the goals hold exactly as one of the truth vectors says.

        Without truth vectors it is FALSE. Results are kept by goals and truth vectors as they are
        given, so the same vectors in another order are computed again.
        """
        if truths == (1,) and len(goals) == 1:  # the one goal holds
            return goals[0]
        key = (goals, truths)
        found = self._as_formula.get(key)
        if found is None:
            found = self._as_formula[key] = self._new_formula(goals, truths)
        return found

    def _new_formula(self, goals: tuple[Formula, ...], truths: tuple[int, ...]) -> Formula:
        """Compute ``as_formula``.

        Negations are written only if they are needed: for ``truths`` that are not closed under
        more bits.
        """
        known = set(truths)
        # If more goals may hold without harm, none need be said to fail: then the least truth
        # vectors are enough, and nothing is negated, which would make the formula expensive.
        upward = all(truth | 1 << bit in known for truth in truths for bit in range(len(goals)))
        if upward:
            truths = tuple(v for v in truths if not any(w != v and w & v == w for w in truths))
        return self.formulas.any_of(
            self.formulas.all_of(
                goal if truth >> i & 1 else self.formulas.negate(goal)
                for i, goal in enumerate(goals)
                if truth >> i & 1 or not upward
            )
            for truth in truths
        )

    def possible(self, asks: tuple[Formula, ...]) -> list[int]:
        """Return the truth vectors that a value may have: all, or only likely ones of very many.

        Among all, that of a value that fits every formula comes first. The list is not to be
        changed.
        """
        count = len(asks)
        if count <= MAX_ENUMERATED_ASKS:
            return list(range((1 << count) - 1, -1, -1))
        found = self._likely.get(asks)
        if found is None:
            found = self._likely[asks] = self._likely_truths(asks)
        return found

    def _likely_truths(self, asks: tuple[Formula, ...]) -> list[int]:
        """Return all truth vectors of scalars, by automata, and likely ones of containers.

        Containers may have others as well: callers that may not miss one use
        ``AwaitedValues.accepts``.
        """
        to = self.restriction
        likely: dict[int, None] = {}
        strings = tuple(to.to(JsonType.STRING, ask) for ask in asks)
        numbers = tuple(to.to(JsonType.NUMBER, ask) for ask in asks)
        likely.update(dict.fromkeys(self.scalars.strings.truths(strings)))
        likely.update(dict.fromkeys(self.scalars.numbers.truths(numbers)))
        likely[truth_vector(to.null(ask) for ask in asks)] = None
        for value in (False, True):
            likely[truth_vector(to.boolean(ask, value) for ask in asks)] = None
        for kind in (JsonType.OBJECT, JsonType.ARRAY):
            likely.update(dict.fromkeys(_combinations([to.to(kind, ask) for ask in asks])))
        return list(likely)


def _combinations(asks: list[Formula]) -> Iterator[int]:
    """Truth vectors of formulas that may be constant.

    All of them, or if too many formulas are open, those that differ little from all and from
    none. That of a value which fits every formula comes first, and they are tried in this order.
    Some may occur twice.
    """
    known = sum(1 << i for i, ask in enumerate(asks) if ask is TRUE)
    bits = [1 << i for i, ask in enumerate(asks) if ask not in (TRUE, FALSE)]
    every = sum(bits)
    if len(bits) <= MAX_ENUMERATED_ASKS:
        for number in reversed(range(1 << len(bits))):
            yield known + sum(bit for i, bit in enumerate(bits) if number >> i & 1)
        return
    yield known + every
    yield from (known + bit for bit in bits)
    yield known
    yield from (known + every - bit for bit in bits)
