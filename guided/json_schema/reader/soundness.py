"""Whether lowering a schema may fail, told without lowering it.

Lowering is most of the work on a large schema, and an answer gets to few of its parts. So a part
is lowered when a text first gets to it, provided that no fault can come to light there: faults are
told before the first token. This looks at every schema that was met, whether the root leads to it
or not; where one is at fault, all that the root leads to is lowered at once, to see whether it
matters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from guided.errors import ConstraintError, LimitExceededError
from guided.json_schema.reader.cycles import endless
from guided.json_schema.reader.location import Location
from guided.json_schema.reader.references import referenced
from guided.json_schema.reader.visit import REFERENCES, Lowering

__all__ = ["is_sound"]

_DYNAMIC: Final = 0
"""Stands for the schemas that a dynamic reference may be bound to, among identities."""


def is_sound(lowering: Lowering) -> bool:
    """Whether every schema that was met, and what they refer to, can be lowered."""
    survey = lowering.survey
    applied: dict[int, list[int]] = {}
    """The schemas that each schema applies to the same value, by identity."""
    try:
        # The documents that references lead to bring further keywords.
        for location, keyword in survey.noted:
            value = location.keywords[keyword]
            match keyword:
                case "pattern":
                    lowering.regular(value, location.pointer)
                case "patternProperties":
                    for pattern in value:
                        lowering.regular(pattern, location.pointer)
                case "unevaluatedProperties" | "unevaluatedItems" | "format":
                    return False
                case _:
                    ahead = applied.setdefault(id(location.schema), [])
                    ahead += _applied(lowering, location, keyword)
    except (ConstraintError, LimitExceededError):
        return False
    applied[_DYNAMIC] = [id(location.schema) for location in survey.dynamic_anchors()]
    return not endless(applied)


def _applied(lowering: Lowering, location: Location, keyword: str) -> Iterable[int]:
    value = location.keywords[keyword]
    if keyword in REFERENCES:
        target = referenced(lowering.survey, location, keyword, frozenset())
        named = () if isinstance(target, bool) else (id(target.schema),)
        return named if keyword == "$ref" else (*named, _DYNAMIC)
    if isinstance(value, list):
        return map(id, value)
    if keyword in ("dependentSchemas", "dependencies"):
        return map(id, value.values())
    return (id(value),)
