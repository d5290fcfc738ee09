"""Values that differ from each other, one for each of several places.

Places are matched with values: where the values of a place are all taken, an augmenting path
(Berge 1957, Kuhn 1955) gives other places different values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from guided.json_schema.formulas.assertions import Unique
from guided.json_schema.formulas.formula import Formula, Formulas
from guided.json_schema.formulas.values import differs, read_value, value_key, with_value
from guided.runtime.fuel import spend

__all__ = ["DistinctTexts"]

Key = object
"""Equal for values that are equal."""


class DistinctTexts:
    """JSON texts for places that are added one by one, all different; few change at each addition.

    A place has as many candidates as there are places, or all values that it has. So where a place
    cannot be added, no choice of values is different in all places.
    """

    def __init__(self, formulas: Formulas, text: Callable[[Formula], bytes | None]) -> None:
        """``text`` finds a value that fits a formula; ``None`` if there is none."""
        self._formulas = formulas
        self._text = text
        self._taken = Unique()
        self._before: list[Unique | None] = []
        """What was taken before each place was added; ``None`` if that has changed since."""
        self._places: list[_Candidates] = []
        """The candidates of each place."""
        self._known: dict[Formula, _Candidates] = {}
        self._key_at: list[Key] = []
        self._owner: dict[Key, int] = {}
        """The value of each place, and the place of each value: inverse, changed together."""
        self._texts: dict[Key, bytes] = {}
        """How each value is written, including values that no place has any more."""
        self._last_given: Key = None
        """The value that was not taken before the last place was added."""

    @property
    def texts(self) -> list[bytes]:
        """The values, place by place."""
        return [self._texts[key] for key in self._key_at]

    def add(self, formula: Formula) -> bool:
        """Find a value that fits a formula, for one more place.

        Returns ``False`` if there is none: then nothing has changed.
        """
        place = len(self._places)
        candidates = self._known.get(formula)
        if candidates is None:
            candidates = self._known[formula] = _Candidates(formula, self._formulas, self._text)
        self._places.append(candidates)
        self._key_at.append(None)
        # First a value that no place has; only if there is none do other places change theirs.
        before = self._taken
        other = self._text(self._formulas.all_of([formula, differs(before, self._formulas)]))
        if other is not None:
            self._give(place, value_key(read_value(other)), other)
            # Undoing is then a pop; after an augmentation all places may have changed.
            self._before.append(before)
        elif self._augment(place):
            self._before = [None] * (place + 1)
        else:
            self._places.pop()
            self._key_at.pop()
            return False
        last = self._texts[self._last_given]
        self._taken = with_value(before, read_value(last), self._formulas)
        return True

    def drop(self) -> None:
        """Remove the place that was added last; the others keep the values that they have now.

        What is taken is then computed again, unless it is known from before the place was added
        (``_before``).
        """
        self._places.pop()
        del self._owner[self._key_at.pop()]
        before = self._before.pop()
        if before is None:
            before = Unique()
            for text in self.texts:
                before = with_value(before, read_value(text), self._formulas)
        self._taken = before

    def _give(self, place: int, key: Key, text: bytes) -> None:
        """Give a place a value that no other place has.

        No other place changes. ``add`` reads ``_last_given`` afterwards.
        """
        self._texts[key] = text
        self._owner[key] = place
        self._key_at[place] = key
        self._last_given = key

    def _augment(self, start: int) -> bool:
        """Find a value for a place by giving other places different values, breadth first.

        This is an augmenting path of bipartite matching, between places and values.
        ``reached_from`` has by value the place that could take it, to follow the path back.
        Anything changes only if it returns ``True``; then any place may have another value.
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
                owner = self._owner.get(key)
                if owner is None:
                    self._texts[key] = text
                    self._shift(start, key, reached_from)
                    self._last_given = key
                    return True
                queue.append(owner)
        return False

    def _shift(self, start: int, key: Key, reached_from: dict[Key, int]) -> None:
        """Along the path back from a free value, give every place the value that it reached.

        Places that are not on the path keep theirs; ``start`` had no value before.
        """
        while True:
            place = reached_from[key]
            before = self._key_at[place]
            self._owner[key] = place
            self._key_at[place] = key
            if place == start:
                return
            key = before


class _Candidates:
    """The different values of a formula, found when they are needed."""

    def __init__(
        self, formula: Formula, formulas: Formulas, text: Callable[[Formula], bytes | None]
    ) -> None:
        self._formula: Final = formula
        self._formulas: Final = formulas
        self._text: Final = text
        self._found: list[tuple[Key, bytes]] = []
        self._taken = Unique()
        """The values found, from which the next one has to differ."""
        self._all = False
        """Whether the search for a further value failed."""

    def get(self, number: int) -> tuple[Key, bytes] | None:
        """Return the value with a number, ``None`` if there are fewer.

        Values are numbered in the order in which they were found. A search that gave up looks like
        the end of the values; ``Searches`` has counted it.
        """
        while len(self._found) <= number and not self._all:
            others = self._formulas.all_of([self._formula, differs(self._taken, self._formulas)])
            text = self._text(others)
            if text is None:
                self._all = True
            else:
                value = read_value(text)
                self._taken = with_value(self._taken, value, self._formulas)
                self._found.append((value_key(value), text))
        return self._found[number] if number < len(self._found) else None
