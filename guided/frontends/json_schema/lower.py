"""A JSON Schema as text → a ``JsonGrammar``, or an error that names the keyword in the way.

The text is read, every schema in it is noted (``survey``), and then each schema that the root leads
to becomes a *place* with a formula. Places wait in a queue and are lowered once each, so recursion
through members and items costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from guided.automata.fuel import spend
from guided.automata.regular import Regular
from guided.errors import LimitExceededError
from guided.frontends.json_schema.cycles import refuse_endless_application
from guided.frontends.json_schema.keyword_formulas import keyword_formulas
from guided.frontends.json_schema.reader import read_schema
from guided.frontends.json_schema.references import Scope, enter
from guided.frontends.json_schema.survey import Survey
from guided.frontends.json_schema.verdicts import Verdict, judge
from guided.frontends.json_schema.visit import Visit
from guided.frontends.regex import parse_regex
from guided.grammar.formula import FALSE, TRUE, Formula, Formulas
from guided.grammar.json_grammar import JsonGrammar
from guided.spec import JsonOptions, JsonSchema

__all__ = ["MAX_PLACES", "LoweredSchema", "lower_json_schema"]

MAX_PLACES = 50_000


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
    survey = Survey(read_schema(schema.text), schema.documents)
    lowering = _Lowering(survey, schema.options)
    root = lowering.lower_all()
    refuse_endless_application(lowering.lowered, lowering.pointers)
    grammar = JsonGrammar(
        formulas=lowering.formulas,
        places=tuple(lowering.lowered),
        pointers=tuple(lowering.pointers),
        root=root,
    )
    return LoweredSchema(grammar, survey, schema.options)


class _Lowering:
    """The work list."""

    def __init__(self, survey: Survey, options: JsonOptions) -> None:
        self.survey = survey
        self.options = options
        self.formulas = Formulas()
        self.lowered: list[Formula] = []
        """The formulas of the places, as far as the queue got."""
        self.pointers: list[str] = []
        self._queue: list[Visit] = []
        """All visits that became places, by number."""
        self._places: dict[tuple[int, Scope], Formula] = {}
        self._regulars: dict[str, Regular] = {}

    def lower_all(self) -> Formula:
        """Lower the root and everything that it leads to."""
        resource = self.survey.root
        if isinstance(resource.root, bool):
            return TRUE if resource.root else FALSE
        location = self.survey.locations[id(resource.root)]
        root = self.place(Visit(self, location, enter(frozenset(), location.resource)))
        for visit in self._queue:
            self.lowered.append(keyword_formulas(visit))
        return root

    def place(self, visit: Visit) -> Formula:
        """The formula of the place that belongs to a visit; new ones are queued."""
        key = (id(visit.location.schema), visit.scope)
        found = self._places.get(key)
        if found is None:
            number = len(self._queue)
            if number >= MAX_PLACES:
                raise LimitExceededError(
                    f"the schema has more than {MAX_PLACES} places",
                    limit=MAX_PLACES,
                    pointer=visit.location.pointer,
                )
            spend(5)
            found = self._places[key] = self.formulas.place(number)
            self._queue.append(visit)
            self.pointers.append(visit.location.pointer)
        return found

    def regular(self, pattern: str, pointer: str) -> Regular:
        """The regular expression of a pattern, parsed once."""
        found = self._regulars.get(pattern)
        if found is None:
            found = self._regulars[pattern] = parse_regex(pattern, pointer=pointer)
        return found
