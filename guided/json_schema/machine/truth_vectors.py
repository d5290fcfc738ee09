"""Truth vectors: which of several formulas hold of one value, and which vectors values may have.

A truth vector is an int with one bit for each formula asked of a value; see
``guided.json_schema.formulas.formula.pack_truth_vector``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from guided.json_schema.formulas.assertions import JsonType
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, pack_truth_vector
from guided.json_schema.formulas.values import Json, formula_of_value
from guided.json_schema.machine.restriction import Restriction
from guided.json_schema.machine.scalars import Scalars
from guided.json_schema.machine.shortest_values import ShortestValues

__all__ = ["MAX_ENUMERATED_FORMULAS", "TruthVectors"]

MAX_ENUMERATED_FORMULAS: Final = 6
"""For up to this many formulas asked of one value, every truth vector is considered."""


class TruthVectors:
    """The truth vectors of values, regardless of where the values stand.

    Bit ``i`` of a vector is for ``formulas[i]``. Caches live as long as the machine.
    """

    def __init__(self, restriction: Restriction, scalars: Scalars, values: ShortestValues) -> None:
        self.formulas: Final = restriction.formulas
        self.restriction: Final = restriction
        self.scalars: Final = scalars
        self.values: Final = values
        self._as_formula: dict[tuple[tuple[Formula, ...], tuple[int, ...]], Formula] = {}
        """The results of ``as_formula`` by its arguments."""
        self._likely: dict[tuple[Formula, ...], list[int]] = {}
        """The results of ``_likely_vectors`` by formulas."""

    def of_value(self, formulas: tuple[Formula, ...], value: Json) -> int:
        """Return the truth vector of one value."""
        return pack_truth_vector(self._fits(formula, value) for formula in formulas)

    def _fits(self, formula: Formula, value: Json) -> bool:
        """Return whether a value fits a formula; for a container, as far as searches find.

        Scalars are decided exactly. If a search gives up on a container the result is ``False``.
        """
        if isinstance(value, list | dict):
            same = formula_of_value(value, self.formulas)
            return self.values.text(self.formulas.all_of([formula, same])) is not None
        if value is None:
            return self.restriction.fits_null(formula)
        if isinstance(value, bool):
            return self.restriction.fits_boolean(formula, value)
        if isinstance(value, str):
            return self.scalars.strings.fits(
                self.restriction.to_type(JsonType.STRING, formula), value
            )
        return self.scalars.numbers.fits(self.restriction.to_type(JsonType.NUMBER, formula), value)

    def as_formula(self, goals: tuple[Formula, ...], truth_vectors: tuple[int, ...]) -> Formula:
        """Return the formula that holds of the values with one of these truth vectors of ``goals``.

        Without truth vectors it is FALSE. Results are cached by both arguments as they are given,
        so the same vectors in another order are computed again.
        """
        if truth_vectors == (1,) and len(goals) == 1:  # the one goal holds
            return goals[0]
        key = (goals, truth_vectors)
        found = self._as_formula.get(key)
        if found is None:
            found = self._as_formula[key] = self._build_formula(goals, truth_vectors)
        return found

    def _build_formula(self, goals: tuple[Formula, ...], truth_vectors: tuple[int, ...]) -> Formula:
        """Compute ``as_formula``.

        Negations are needed only if the vectors are not closed under setting more bits. Goals and
        vectors stay in their order, in which searches try them.
        """
        given = set(truth_vectors)
        # If more goals may hold without harm, none need be said to fail: then the least truth
        # vectors are enough, and nothing is negated, which would make the formula expensive.
        upward = all(
            truth_vector | 1 << bit in given
            for truth_vector in truth_vectors
            for bit in range(len(goals))
        )
        if upward:
            truth_vectors = tuple(
                v for v in truth_vectors if not any(w != v and w & v == w for w in truth_vectors)
            )
        return self.formulas.any_of(
            self.formulas.all_of(
                goal if truth_vector >> i & 1 else self.formulas.negate(goal)
                for i, goal in enumerate(goals)
                if truth_vector >> i & 1 or not upward
            )
            for truth_vector in truth_vectors
        )

    def possible_vectors(self, formulas: tuple[Formula, ...]) -> list[int]:
        """Return the truth vectors that a value may have: all, or only likely ones of very many.

        Where all are listed, that of a value which fits every formula comes first. The list is
        shared: callers must not change it.
        """
        count = len(formulas)
        if count <= MAX_ENUMERATED_FORMULAS:
            return list(range((1 << count) - 1, -1, -1))
        found = self._likely.get(formulas)
        if found is None:
            found = self._likely[formulas] = self._likely_vectors(formulas)
        return found

    def _likely_vectors(self, formulas: tuple[Formula, ...]) -> list[int]:
        """Return all truth vectors of scalars, by automata, and likely ones of containers.

        Containers may have others as well: callers that may not miss one use
        ``ValueStacks.accepts``.
        """
        restriction = self.restriction
        likely: dict[int, None] = {}
        strings = tuple(restriction.to_type(JsonType.STRING, formula) for formula in formulas)
        numbers = tuple(restriction.to_type(JsonType.NUMBER, formula) for formula in formulas)
        likely.update(dict.fromkeys(self.scalars.strings.possible_vectors(strings)))
        likely.update(dict.fromkeys(self.scalars.numbers.possible_vectors(numbers)))
        likely[pack_truth_vector(restriction.fits_null(formula) for formula in formulas)] = None
        for value in (False, True):
            likely[
                pack_truth_vector(restriction.fits_boolean(formula, value) for formula in formulas)
            ] = None
        for kind in (JsonType.OBJECT, JsonType.ARRAY):
            likely.update(
                dict.fromkeys(
                    _combinations([restriction.to_type(kind, formula) for formula in formulas])
                )
            )
        return list(likely)


def _combinations(formulas: list[Formula]) -> Iterator[int]:
    """Yield truth vectors of formulas, likely ones first; constant formulas have a fixed bit.

    All of them, or if more than MAX_ENUMERATED_FORMULAS are not constant, those in which all, none,
    one, or all but one of these hold. Some may occur twice.
    """
    constant = sum(1 << i for i, formula in enumerate(formulas) if formula is TRUE)
    bits = [1 << i for i, formula in enumerate(formulas) if formula not in (TRUE, FALSE)]
    every = sum(bits)
    if len(bits) <= MAX_ENUMERATED_FORMULAS:
        for chosen in reversed(range(1 << len(bits))):
            yield constant + sum(bit for i, bit in enumerate(bits) if chosen >> i & 1)
        return
    yield constant + every
    yield from (constant + bit for bit in bits)
    yield constant
    yield from (constant + every - bit for bit in bits)
