"""Values that differ from each other, one for each of several positions.

This is a bipartite matching of positions and values: where all values of a position are taken, an
augmenting path (Berge 1957, Kuhn 1955) gives other positions different values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from guided.json_schema.formulas.assertions import Unique
from guided.json_schema.formulas.formula import Formula, Formulas
from guided.json_schema.formulas.values import (
    differs_from_earlier,
    read_value,
    value_key,
    with_earlier_item,
)
from guided.runtime.work_budget import spend

__all__ = ["DistinctTexts"]

Key = object
"""``value_key`` of a value: equal for equal values."""


class DistinctTexts:
    """Different JSON texts for positions that are added one by one.

    A position has as many candidates as there are positions, or all its values if these are fewer.
    So if a position cannot be added, there is no choice of different values for all positions,
    unless a search gave up (``_Candidates.get``).
    """

    def __init__(self, formulas: Formulas, text: Callable[[Formula], bytes | None]) -> None:
        """``text`` finds a value that fits a formula; ``None`` if there is none."""
        self._formulas = formulas
        self._text = text
        self._taken = Unique()
        self._taken_before: list[Unique | None] = []
        """``_taken`` before each position was added; ``None`` if an augmentation came later."""
        self._candidates_by_position: list[_Candidates] = []
        """The candidates of each position."""
        self._candidates: dict[Formula, _Candidates] = {}
        """Those of each formula, shared by all its positions."""
        self._key_by_position: list[Key] = []
        self._position_by_key: dict[Key, int] = {}
        """The value of each position, and the position of each value: inverse, changed together."""
        self._texts: dict[Key, bytes] = {}
        """The text of each value, also of values that no position has any more."""
        self._last_assigned: Key = None
        """The value that became taken when the last position was added."""

    @property
    def texts(self) -> list[bytes]:
        """The text of the value at each position."""
        return [self._texts[key] for key in self._key_by_position]

    def add(self, formula: Formula) -> bool:
        """Add a position whose value fits a formula; other positions may get other values.

        Returns ``False`` if that is impossible: then nothing has changed.
        """
        position = len(self._candidates_by_position)
        candidates = self._candidates.get(formula)
        if candidates is None:
            candidates = self._candidates[formula] = _Candidates(
                formula, self._formulas, self._text
            )
        self._candidates_by_position.append(candidates)
        self._key_by_position.append(None)
        # First a value that no position has; only if there is none do other positions change
        # theirs.
        before = self._taken
        other = self._text(
            self._formulas.all_of([formula, differs_from_earlier(before, self._formulas)])
        )
        if other is not None:
            self._assign(position, value_key(read_value(other)), other)
            # Then ``drop`` can restore ``before``; after an augmentation all values may differ.
            self._taken_before.append(before)
        elif self._augment(position):
            self._taken_before = [None] * (position + 1)
        else:
            self._candidates_by_position.pop()
            self._key_by_position.pop()
            return False
        last = self._texts[self._last_assigned]
        self._taken = with_earlier_item(before, read_value(last), self._formulas)
        return True

    def drop(self) -> None:
        """Remove the position added last; the others keep the values that they have now."""
        self._candidates_by_position.pop()
        del self._position_by_key[self._key_by_position.pop()]
        before = self._taken_before.pop()
        if before is None:
            before = Unique()
            for text in self.texts:
                before = with_earlier_item(before, read_value(text), self._formulas)
        self._taken = before

    def _assign(self, position: int, key: Key, text: bytes) -> None:
        """Give a new position a value that no other position has, and set ``_last_assigned``.

        ``key`` and ``text`` are those of the value.
        """
        self._texts[key] = text
        self._position_by_key[key] = position
        self._key_by_position[position] = key
        self._last_assigned = key

    def _augment(self, start: int) -> bool:
        """Search breadth first for an augmenting path from ``start``; return whether there is one.

        ``reached_from`` has by value the position that could take it, to follow the path back. If
        ``True``, any position may have another value; else nothing has changed.
        """
        reached_from: dict[Key, int] = {}
        queue = [start]
        for_all = len(self._candidates_by_position)
        at = 0
        while at < len(queue):
            position = queue[at]
            at += 1
            index = 0
            # With as many values as there are positions, one of them is free.
            while (
                index < for_all
                and (found := self._candidates_by_position[position].get(index)) is not None
            ):
                index += 1
                spend(2)
                key, text = found
                if key in reached_from:
                    continue
                reached_from[key] = position
                owner = self._position_by_key.get(key)
                if owner is None:
                    self._texts[key] = text
                    self._flip_path(start, key, reached_from)
                    self._last_assigned = key
                    return True
                queue.append(owner)
        return False

    def _flip_path(self, start: int, key: Key, reached_from: dict[Key, int]) -> None:
        """Give each position on the path from ``start`` to the unused ``key`` its next value."""
        while True:
            position = reached_from[key]
            before = self._key_by_position[position]
            self._position_by_key[key] = position
            self._key_by_position[position] = key
            if position == start:
                return
            key = before


class _Candidates:
    """The different values of one formula, found when they are requested."""

    def __init__(
        self, formula: Formula, formulas: Formulas, text: Callable[[Formula], bytes | None]
    ) -> None:
        self._formula: Final = formula
        self._formulas: Final = formulas
        self._text: Final = text
        self._found: list[tuple[Key, bytes]] = []
        """The key and text of each value found so far."""
        self._taken = Unique()
        """The values found, from which the next one has to differ."""
        self._is_exhausted = False
        """Whether the search for a further value failed."""

    def get(self, index: int) -> tuple[Key, bytes] | None:
        """Return the key and text of a value, by the order found; ``None`` if there are fewer.

        A search that gave up looks like the end of the values; ``Searches`` has counted it.
        """
        while len(self._found) <= index and not self._is_exhausted:
            others = self._formulas.all_of(
                [self._formula, differs_from_earlier(self._taken, self._formulas)]
            )
            text = self._text(others)
            if text is None:
                self._is_exhausted = True
            else:
                value = read_value(text)
                self._taken = with_earlier_item(self._taken, value, self._formulas)
                self._found.append((value_key(value), text))
        return self._found[index] if index < len(self._found) else None
