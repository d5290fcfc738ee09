"""Random schemas of all drafts: hard ones with more keywords, written as the draft requires."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from guided.json_schema.reader.keywords import LATEST, Draft
from tests.kit.hard_schemas import hard_schema

__all__ = ["in_draft", "subschemas", "wide_schema"]

Schema: TypeAlias = Any

_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs")
_SINGLE: Final = (
    *("additionalProperties", "propertyNames", "unevaluatedProperties", "items", "contains"),
    *("unevaluatedItems", "not", "if", "then", "else"),
)


def wide_schema(rng: random.Random) -> Schema:
    """A schema of a random draft, most often the latest."""
    schema = hard_schema(rng)
    if isinstance(schema, dict):
        for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
            place = rng.choice(list(subschemas(schema)))
            place.update(rng.choice(_MORE)(rng))
        if "#/$defs/y" in repr(schema):
            inner = {"$ref": "#/$defs/y"}
            schema.setdefault("$defs", {})["y"] = rng.choice(
                [
                    {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": inner}},
                    {
                        "oneOf": [
                            {"type": "array", "items": inner, "uniqueItems": True},
                            {"const": 1},
                        ]
                    },
                    {"anyOf": [{"type": "boolean"}, {"prefixItems": [inner], "type": "array"}]},
                ]
            )
            schema["$defs"].setdefault("x", {"type": ["string", "integer"]})
        draft = rng.choice([LATEST] * 6 + list(Draft))
        if draft is not LATEST:
            schema = {"$schema": draft.uri, **in_draft(schema, draft)}
    return schema


def subschemas(schema: Schema) -> Iterator[dict[str, Any]]:
    """All schemas of draft 2020-12 inside of one that are objects, itself first."""
    if not isinstance(schema, dict):
        return
    yield schema
    for keyword, value in list(schema.items()):
        if keyword in _LISTS:
            inner = value
        elif keyword in _MAPS:
            inner = list(value.values())
        else:
            inner = [value] if keyword in _SINGLE else []
        for each in inner:
            yield from subschemas(each)


def _few_values(rng: random.Random, _: int = 0) -> Schema:
    return rng.choice(
        [
            {"enum": rng.sample([0, 1, 2, 3, "a", "b", None, True], rng.choice([1, 2, 3]))},
            {"type": "integer", "minimum": 0, "maximum": rng.choice([0, 1, 2])},
            {"type": "number", "minimum": 0.5, "maximum": 0.5},
            {"multipleOf": 0.5, "minimum": 0, "maximum": 1, "type": "number"},
            {"type": "boolean"},
            {"type": "string", "pattern": "^[ab]?$"},
            {"enum": [[], [1], {}, {"a": 1}, [0, 1]]},
        ]
    )


def _tight(rng: random.Random) -> dict[str, Any]:
    count = rng.choice([1, 2, 3, 4])
    made: dict[str, Any] = {"type": "array", "uniqueItems": True, "minItems": count}
    if rng.random() < 0.6:
        made["prefixItems"] = [_few_values(rng) for _ in range(count)]
    made["items"] = rng.choice([False, _few_values(rng)])
    return made


_MORE: Final[tuple[Callable[[random.Random], dict[str, Any]], ...]] = (
    _tight,
    _tight,
    lambda rng: {"multipleOf": rng.choice([0.1, 0.01, 0.3, 2.5, 7])},
    lambda rng: {"format": rng.choice(["date", "ipv4", "uuid", "email", "unknown"])},
    lambda rng: {"type": "integer", "exclusiveMinimum": rng.choice([-1.5, 0, 2])},
    lambda rng: {"maximum": rng.choice([-0.5, 0.1, 3]), "type": ["number", "null"]},
    lambda _: {"uniqueItems": True},
    lambda _: {"properties": {"b": {"$ref": "#/$defs/y"}}},
    lambda _: {"anyOf": [{"$ref": "#/$defs/y"}, {"type": "string"}]},
    lambda rng: {"contains": _few_values(rng), "minContains": rng.choice([0, 1, 2, 3])},
    lambda rng: {"contains": _few_values(rng), "maxContains": rng.choice([1, 2])},
    lambda rng: {"oneOf": [_few_values(rng), _few_values(rng), {"type": "array"}]},
    lambda rng: {"not": _few_values(rng)},
    lambda rng: {"not": {"uniqueItems": True}, "maxItems": rng.choice([2, 3])},
    lambda rng: {"additionalProperties": _few_values(rng), "minProperties": 2},
)


def in_draft(schema: Schema, draft: Draft) -> Schema:
    """A schema of draft 2020-12 written in an older draft, without the keywords that it lacks."""
    if isinstance(schema, bool):
        plain: Schema = {} if schema else {"not": {}}
        return plain if draft is Draft.DRAFT_4 else schema
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        _say(keyword, value, draft, made)
    if draft < LATEST and "prefixItems" in schema:
        made["items"] = [in_draft(each, draft) for each in schema["prefixItems"]]
        if "items" in schema:
            made["additionalItems"] = in_draft(schema["items"], draft)
    return made


def _say(keyword: str, value: Any, draft: Draft, made: dict[str, Any]) -> None:
    old = draft <= Draft.DRAFT_7
    if keyword in ("prefixItems", *_dropped(draft)):
        return
    if keyword in _LISTS:
        made[keyword] = [in_draft(each, draft) for each in value]
    elif keyword in _MAPS:
        inner = {name: in_draft(each, draft) for name, each in value.items()}
        if keyword == "dependentSchemas" and old:
            made.setdefault("dependencies", {}).update(inner)
        else:
            made["definitions" if keyword == "$defs" and old else keyword] = inner
    elif keyword in _SINGLE:
        made[keyword] = in_draft(value, draft)
    elif keyword == "dependentRequired" and old:
        made.setdefault("dependencies", {}).update(value)
    elif keyword == "$ref" and old:
        made[keyword] = value.replace("$defs", "definitions")
    elif keyword == "const" and draft is Draft.DRAFT_4:
        made.setdefault("enum", [value])
    elif keyword in ("exclusiveMinimum", "exclusiveMaximum") and draft is Draft.DRAFT_4:
        made[keyword] = True
        made[keyword.removeprefix("exclusive").lower()] = value
    elif not (keyword in ("minimum", "maximum") and keyword in made):
        made[keyword] = value


def _dropped(draft: Draft) -> set[str]:
    """The keywords that the draft lacks."""
    dropped: set[str] = set()
    if draft <= Draft.DRAFT_7:
        dropped |= {"unevaluatedProperties", "unevaluatedItems", "minContains", "maxContains"}
    if draft <= Draft.DRAFT_6:
        dropped |= {"if", "then", "else"}
    if draft <= Draft.DRAFT_4:
        dropped |= {"contains", "propertyNames"}
    return dropped
