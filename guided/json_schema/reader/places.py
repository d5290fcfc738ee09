"""The schema objects that the root leads to, each lowered to a formula when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, overload

from guided.errors import LimitExceededError
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Formulas
from guided.json_schema.reader.keyword_formulas import keyword_formulas
from guided.json_schema.reader.references import Scope, enter
from guided.json_schema.reader.survey import Survey
from guided.json_schema.reader.visit import Visit
from guided.regular.expression import Regular
from guided.regular.patterns import parse_regex
from guided.runtime.fuel import spend
from guided.spec import JsonOptions

__all__ = ["MAX_PLACES", "Places"]

MAX_PLACES: Final = 50_000


class Places(Sequence[Formula]):
    """The formulas of the places met so far, each lowered when it is first asked for.

    To go through them all is to lower everything that the root leads to.
    """

    def __init__(self, survey: Survey, options: JsonOptions) -> None:
        self.survey = survey
        self.options = options
        self.formulas = Formulas()
        self._visits: list[Visit] = []
        """The visits that became places, by number."""
        self._lowered: dict[int, Formula] = {}
        self._numbers: dict[tuple[int, Scope], int] = {}
        self._regulars: dict[str, Regular] = {}
        self.root = self._root()

    @property
    def pointers(self) -> list[str]:
        """Where in the schema each place was written."""
        return [visit.location.pointer for visit in self._visits]

    def pointer(self, number: int) -> str:
        """Where in the schema a place was written."""
        return self._visits[number].location.pointer

    def __len__(self) -> int:
        return len(self._visits)

    @overload
    def __getitem__(self, number: int) -> Formula: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Formula]: ...

    def __getitem__(self, number: int | slice) -> Formula | Sequence[Formula]:
        if isinstance(number, slice):
            return [self[place] for place in range(len(self))[number]]
        found = self._lowered.get(number)
        if found is None:
            found = self._lowered[number] = keyword_formulas(self._visits[number])
        return found

    def place(self, visit: Visit) -> Formula:
        """The formula of the place that belongs to a visit, which may be a new one."""
        key = (id(visit.location.schema), visit.scope)
        number = self._numbers.get(key)
        if number is None:
            number = len(self._visits)
            if number >= MAX_PLACES:
                raise LimitExceededError(
                    f"the schema has more than {MAX_PLACES} places",
                    limit=MAX_PLACES,
                    pointer=visit.location.pointer,
                )
            # Before anything is noted: the work may end here, and others go on with what there is.
            spend(5)
            self._numbers[key] = number
            self._visits.append(visit)
        return self.formulas.place(number)

    def regular(self, pattern: str, pointer: str) -> Regular:
        """The regular expression of a pattern, parsed once."""
        found = self._regulars.get(pattern)
        if found is None:
            found = self._regulars[pattern] = parse_regex(pattern, pointer=pointer)
        return found

    def _root(self) -> Formula:
        resource = self.survey.root
        if isinstance(resource.root, bool):
            return TRUE if resource.root else FALSE
        location = self.survey.locations[id(resource.root)]
        return self.place(Visit(self, location, enter(frozenset(), location.resource)))
