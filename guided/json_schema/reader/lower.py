"""A JSON Schema as text → a ``JsonGrammar``, or an error that names the keyword in the way.

The text is read, every schema in it is noted (``survey``), and then each schema that the root
leads to becomes a ``SchemaNode`` with a formula. Nodes are lowered once each, when a text first
gets to them or, in a schema that may hold a fault (``soundness``), all at once: so recursion
through members and items costs nothing, and neither does what no answer speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, overload

from guided.errors import LimitExceededError
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Formulas
from guided.json_schema.formulas.json_grammar import JsonGrammar
from guided.json_schema.reader.applicators import APPLICATOR_FORMULAS
from guided.json_schema.reader.container_keywords import ARRAY_FORMULAS, OBJECT_FORMULAS
from guided.json_schema.reader.soundness import is_sound, refuse_endless_application
from guided.json_schema.reader.survey import Scope, Survey, enter
from guided.json_schema.reader.text import read_schema
from guided.json_schema.reader.unevaluated import UNEVALUATED_FORMULAS
from guided.json_schema.reader.value_keywords import LISTED_FORMULAS, SCALAR_FORMULAS
from guided.json_schema.reader.verdicts import Verdict, judge
from guided.json_schema.reader.visit import Visit
from guided.regular.expression import Regular
from guided.regular.patterns import parse_regex
from guided.runtime.fuel import spend
from guided.spec import JsonOptions, JsonSchema

__all__ = ["LoweredSchema", "lower_json_schema"]


@dataclass(frozen=True)
class LoweredSchema:
    """What the front end makes of a schema."""

    grammar: JsonGrammar
    survey: Survey = field(repr=False)
    options: JsonOptions

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """One for each occurrence of a keyword, schema by schema in the order of their text."""
        return judge(self.survey, self.options)


def lower_json_schema(schema: JsonSchema) -> LoweredSchema:
    """Lower the schema; raises InvalidConstraintError, UnsupportedFeatureError or
    LimitExceededError, each with the JSON pointer of what is in the way.
    """
    root = read_schema(schema.text)
    places = Places(Survey(root, schema.documents), schema.options)
    if not is_sound(places):
        places = Places(Survey(root, schema.documents), schema.options)
        refuse_endless_application(tuple(places), places.pointers)
    grammar = JsonGrammar(places.formulas, places, places.root, places.pointer)
    return LoweredSchema(grammar, places.survey, schema.options)


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


def keyword_formulas(visit: Visit) -> Formula:
    """What all keywords say together, in the order in which they are written.

    What only asks for members comes last: members are written in the order in which a formula first
    names them, and ``properties`` is where their order is told.
    """
    written = [keyword for keyword in visit.keywords if keyword in _FORMULAS]
    written.sort(key=lambda keyword: keyword in _LAST)
    return visit.formulas.all_of(_one_by_one(visit, written))


def _one_by_one(visit: Visit, keywords: list[str]) -> Iterator[Formula]:
    """Made as they are asked for: nothing behind FALSE is looked at."""
    for function in dict.fromkeys(_FORMULAS[keyword] for keyword in keywords):
        yield function(visit)


_FORMULAS: Final[dict[str, Callable[[Visit], Formula]]] = {
    **APPLICATOR_FORMULAS,
    **LISTED_FORMULAS,
    **SCALAR_FORMULAS,
    **ARRAY_FORMULAS,
    **OBJECT_FORMULAS,
    **UNEVALUATED_FORMULAS,
}
_LAST: Final = frozenset({"required", "dependentRequired"})
