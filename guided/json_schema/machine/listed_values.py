"""Looks values up in the lists of assertions."""

from __future__ import annotations

import sys
from typing import Final

from guided.json_schema.formulas.assertions import NumberChoices, StringChoices
from guided.json_schema.formulas.formula import Leaf
from guided.json_schema.formulas.values import Json
from guided.runtime.work_budget import spend

__all__ = ["ListedValues"]

_MAX_COMPARED: Final = 32
"""The longest list whose values are compared one after another, without a set of them."""


class ListedValues:
    """Which values lists have: sets of long ones, cached as long as this object.

    Each of many values may be looked up in a list of as many.
    """

    def __init__(self) -> None:
        self._sets: dict[Leaf, frozenset[Json]] = {}

    @property
    def nbytes(self) -> int:
        """About how many bytes the sets take."""
        # Copied first: another thread may add sets meanwhile.
        return sum([sys.getsizeof(values) for values in list(self._sets.values())])

    def has(self, leaf: Leaf, value: Json) -> bool:
        """Return whether a list, the assertion of ``leaf``, has a value."""
        assertion = leaf.assertion
        assert isinstance(assertion, NumberChoices | StringChoices), leaf
        values: tuple[Json, ...] = assertion.values
        if len(values) <= _MAX_COMPARED:
            return value in values
        found = self._sets.get(leaf)
        if found is None:
            spend(len(values) // 8)
            found = self._sets[leaf] = frozenset(values)
        return value in found
