"""Values that differ from each other, one for each of several places.

This is a bipartite matching of places and values: where all values of a place are taken, an
augmenting path (Berge 1957, Kuhn 1955) gives other places different values.
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
    """Different JSON texts for places that are added one by one.

    A place has as many candidates as there are places, or all its values if these are fewer. So if
    a place cannot be added, there is no choice of different values for all places.
    """

    def __init__(self, formulas: Formulas, text: Callable[[Formula], bytes | None]) -> None:
        """``text`` finds a value that fits a formula; ``None`` if there is none."""
        self._formulas = formulas
        self._text = text
        self._taken = Unique()
        self._taken_before: list[Unique | None] = []
        """``_taken`` before each place was added; ``None`` if an augmentation came later."""
        self._places: list[_Candidates] = []
        """The candidates of each place."""
        self._candidates: dict[Formula, _Candidates] = {}
        self._key_by_place: list[Key] = []
        self._place_by_key: dict[Key, int] = {}
        """The value of each place, and the place of each value: inverse, changed together."""
        self._texts: dict[Key, bytes] = {}
        """The text of each value, also of values that no place has any more."""
        self._last_assigned: Key = None
        """The value that became taken when the last place was added."""

    @property
    def texts(self) -> list[bytes]:
        """The values, place by place."""
        return [self._texts[key] for key in self._key_by_place]

    def add(self, formula: Formula) -> bool:
        """Add a place whose value fits a formula; other places may get other values.

        Returns ``False`` if that is impossible: then nothing has changed.
        """
        place = len(self._places)
        candidates = self._candidates.get(formula)
        if candidates is None:
            candidates = self._candidates[formula] = _Candidates(
                formula, self._formulas, self._text
            )
        self._places.append(candidates)
        self._key_by_place.append(None)
        # First a value that no place has; only if there is none do other places change theirs.
        before = self._taken
        other = self._text(
            self._formulas.all_of([formula, differs_from_earlier(before, self._formulas)])
        )
        if other is not None:
            self._assign(place, value_key(read_value(other)), other)
            # Then ``drop`` can restore ``before``; after an augmentation all values may differ.
            self._taken_before.append(before)
        elif self._augment(place):
            self._taken_before = [None] * (place + 1)
        else:
            self._places.pop()
            self._key_by_place.pop()
            return False
        last = self._texts[self._last_assigned]
        self._taken = with_earlier_item(before, read_value(last), self._formulas)
        return True

    def drop(self) -> None:
        """Remove the place that was added last; the others keep the values that they have now."""
        self._places.pop()
        del self._place_by_key[self._key_by_place.pop()]
        before = self._taken_before.pop()
        if before is None:
            before = Unique()
            for text in self.texts:
                before = with_earlier_item(before, read_value(text), self._formulas)
        self._taken = before

    def _assign(self, place: int, key: Key, text: bytes) -> None:
        """Give a new place a value that no other place has, and set ``_last_assigned``."""
        self._texts[key] = text
        self._place_by_key[key] = place
        self._key_by_place[place] = key
        self._last_assigned = key

    def _augment(self, start: int) -> bool:
        """Find a value for a place by an augmenting path, breadth first; return whether one exists.

        ``reached_from`` has by value the place that could take it, to follow the path back. If
        ``True``, any place may have another value; else nothing has changed.
        """
        reached_from: dict[Key, int] = {}
        queue = [start]
        for_all = len(self._places)
        at = 0
        while at < len(queue):
            place = queue[at]
            at += 1
            number = 0
            # With as many values as there are places, one of them is free.
            while number < for_all and (found := self._places[place].get(number)) is not None:
                number += 1
                spend(2)
                key, text = found
                if key in reached_from:
                    continue
                reached_from[key] = place
                owner = self._place_by_key.get(key)
                if owner is None:
                    self._texts[key] = text
                    self._flip_path(start, key, reached_from)
                    self._last_assigned = key
                    return True
                queue.append(owner)
        return False

    def _flip_path(self, start: int, key: Key, reached_from: dict[Key, int]) -> None:
        """Give every place on the path from ``start`` to the free value ``key`` its next value."""
        while True:
            place = reached_from[key]
            before = self._key_by_place[place]
            self._place_by_key[key] = place
            self._key_by_place[place] = key
            if place == start:
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
        self._taken = Unique()
        """The values found, from which the next one has to differ."""
        self._is_exhausted = False
        """Whether the search for a further value failed."""

    def get(self, number: int) -> tuple[Key, bytes] | None:
        """Return the key and text of the ``number``-th value found, ``None`` if there are fewer.

        A search that gave up looks like the end of the values; ``Searches`` has counted it.
        """
        while len(self._found) <= number and not self._is_exhausted:
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
        return self._found[number] if number < len(self._found) else None
