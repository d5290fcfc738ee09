"""A schema object as the lowering comes to it: its keywords, and the formulas of what it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from guided.json_schema.formulas.assertions import Has, JsonType, Types
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Formulas
from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.survey import Location, Scope, Survey, enter, referenced
from guided.json_schema.reader.text import child
from guided.regular.expression import Regular
from guided.spec import JsonOptions

__all__ = ["REFERENCES", "Lowering", "Visit"]

_OBJECT: Final = frozenset({JsonType.OBJECT})
REFERENCES: Final = ("$ref", "$recursiveRef", "$dynamicRef")


class Lowering(Protocol):
    """What all visits share."""

    survey: Survey
    formulas: Formulas
    options: JsonOptions

    def place(self, visit: Visit) -> Formula:
        """The formula of the place that belongs to a visit, lowered now or later."""
        ...

    def regular(self, pattern: str, pointer: str) -> Regular:
        """The regular expression of a pattern."""
        ...


class Visit:
    """A schema object in the dynamic scope through which it was reached."""

    __slots__ = ("location", "lowering", "scope")

    def __init__(self, lowering: Lowering, location: Location, scope: Scope) -> None:
        self.lowering: Final = lowering
        self.location: Final = location
        self.scope: Final = scope

    @property
    def keywords(self) -> dict[str, Json]:
        """The keywords that say something about values."""
        return self.location.keywords

    @property
    def formulas(self) -> Formulas:
        """Makes the formulas."""
        return self.lowering.formulas

    def pointer(self, *tokens: str | int) -> str:
        """The JSON pointer of something in this schema."""
        return child(self.location.pointer, *tokens)

    def inner(self, schema: Json) -> Visit | bool:
        """The visit of a schema that stands in this one; whether it holds, where that is plain."""
        if isinstance(schema, bool):
            return schema
        return self._to(self.lowering.survey.locations[id(schema)])

    def target(self, keyword: str) -> Visit | bool:
        """The visit of what a reference names."""
        found = referenced(self.lowering.survey, self.location, keyword, self.scope)
        return found if isinstance(found, bool) else self._to(found)

    def apply(self, schema: Json) -> Formula:
        """The formula of a schema that stands in this one."""
        return self.formula(self.inner(schema))

    def formula(self, visit: Visit | bool) -> Formula:
        """The formula of a visit."""
        if isinstance(visit, bool):
            return TRUE if visit else FALSE
        return self.lowering.place(visit) if visit.keywords else TRUE

    def in_place(self) -> Iterator[tuple[Formula, Visit]]:
        """The schemas that this one applies to the same value, each with its condition.

        Under its condition a schema holds wherever this one does.
        """
        for condition, visit in self._applied():
            if not isinstance(visit, bool):
                yield condition, visit

    def _applied(self) -> Iterator[tuple[Formula, Visit | bool]]:
        for keyword, value in self.keywords.items():
            if keyword in REFERENCES:
                yield TRUE, self.target(keyword)
            elif keyword == "allOf":
                yield from ((TRUE, self.inner(schema)) for schema in value)
            elif keyword in ("anyOf", "oneOf"):
                yield from ((self.apply(schema), self.inner(schema)) for schema in value)
            elif keyword == "if":
                condition = self.apply(value)
                yield condition, self.inner(value)
                yield condition, self.inner(self.keywords.get("then", True))
                opposite = self.formulas.negate(condition)
                yield opposite, self.inner(self.keywords.get("else", True))
            elif keyword in ("dependentSchemas", "dependencies"):
                for name, schema in value.items():
                    if not isinstance(schema, list):
                        # "Has" alone holds of what is no object as well.
                        leaf = self.formulas.leaf
                        condition = self.formulas.all_of([leaf(Types(_OBJECT)), leaf(Has(name))])
                        yield condition, self.inner(schema)

    def _to(self, location: Location) -> Visit:
        return Visit(self.lowering, location, enter(self.scope, location.resource))
