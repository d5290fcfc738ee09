"""Random schemas over a small alphabet, so that keywords meet, and documents over the same.

Both are made from a ``random.Random``: a plain seed repeats one, and ``strategies.randoms()`` lets
hypothesis shrink it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, TypeAlias

__all__ = ["hard_document", "hard_schema", "mutated"]

Schema: TypeAlias = Any
_Maker: TypeAlias = Callable[[random.Random, int], dict[str, Any]]

_NAMES: Final = ("a", "b", "ab", "c")
_STRINGS: Final = ("", "a", "b", "ab", "aab", "\u00e9")
_NUMBERS: Final = (0, 1, 2, -1, 3, 1.5, 10)
_PATTERNS: Final = ("^a", "b$", "^a*$", "^[ab]$", "a", "^(a|ab)$")
_MAX_DEPTH: Final = 3


def hard_schema(rng: random.Random) -> Schema:
    """A schema with a definition that it, and the definition itself, may refer to."""
    schema = _schema(rng, 0)
    if isinstance(schema, dict) and "#/$defs/x" in repr(schema):
        # The definition refers to itself only below a member or an item.
        schema["$defs"] = {"x": _recursive(rng)}
    return schema


def _recursive(rng: random.Random) -> Schema:
    inner = {"$ref": "#/$defs/x"}
    return rng.choice(
        [
            {"type": ["array", "null"], "items": inner, "maxItems": 2},
            {"type": "object", "properties": {"a": inner}, "additionalProperties": False},
            {"anyOf": [{"type": "integer"}, {"type": "array", "contains": inner}]},
            {"not": {"type": "object"}, "items": inner, "uniqueItems": True},
            {"properties": {"a": inner}, "unevaluatedProperties": {"type": "integer"}},
            {"oneOf": [{"const": 1}, {"required": ["b"], "properties": {"b": inner}}]},
            {"if": {"type": "array"}, "then": {"items": inner}, "else": {"enum": [0, "a"]}},
        ]
    )


def _schema(rng: random.Random, depth: int) -> Schema:
    if depth >= _MAX_DEPTH or rng.random() < 0.1:
        return _leaf(rng)
    makers = rng.choice([_OBJECT, _OBJECT, _ARRAY, _ARRAY, _STRING, _NUMBER, _JOINED, _ALL])
    schema: dict[str, Any] = {}
    for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
        schema.update(rng.choice(makers)(rng, depth + 1))
    if rng.random() < 0.25:
        schema.update(rng.choice(_JOINED)(rng, depth + 1))
    if rng.random() < 0.3:
        schema.update(_type(rng, depth))
    return schema


def _leaf(rng: random.Random) -> Schema:
    leaves: list[Schema] = [
        True,
        {},
        {"type": "integer"},
        {"type": "string"},
        {"const": rng.choice(_NUMBERS)},
        {"const": rng.choice(_STRINGS)},
        {"enum": [1, "a", None]},
        {"$ref": "#/$defs/x"},
        {"type": rng.choice(["object", "array", "boolean", "null", "number"])},
        False,
    ]
    return rng.choice(leaves)


def _some(rng: random.Random, count: int) -> list[str]:
    return rng.sample(_NAMES, count)


def _type(rng: random.Random, _: int) -> dict[str, Any]:
    types = ["object", "array", "string", "integer", "number", "null", "boolean"]
    if rng.random() < 0.5:
        return {"type": rng.choice(types[:5])}
    return {"type": rng.sample(types, 2)}


def _value(rng: random.Random, _: int) -> dict[str, Any]:
    values = [hard_document(rng, 1) for _ in range(rng.choice([1, 2, 3]))]
    return {"const": values[0]} if rng.random() < 0.4 else {"enum": values}


def _properties(rng: random.Random, depth: int) -> dict[str, Any]:
    names = _some(rng, rng.choice([1, 2, 3]))
    made: dict[str, Any] = {"properties": {name: _schema(rng, depth) for name in names}}
    if rng.random() < 0.4:
        made["required"] = names[:1]
    return made


def _contains(rng: random.Random, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"contains": _schema(rng, depth)}
    if rng.random() < 0.4:
        made["minContains"] = rng.choice([0, 1, 2])
    if rng.random() < 0.4:
        made["maxContains"] = rng.choice([0, 1, 2])
    return made


def _prefix(rng: random.Random, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {"prefixItems": [_schema(rng, depth) for _ in range(rng.choice([1, 2]))]}
    if rng.random() < 0.5:
        made["items"] = _schema(rng, depth)
    return made


def _condition(rng: random.Random, depth: int) -> dict[str, Any]:
    made = {"if": _schema(rng, depth)}
    for branch in rng.choice([["then"], ["else"], ["then", "else"]]):
        made[branch] = _schema(rng, depth)
    return made


def _names(rng: random.Random, _: int) -> dict[str, Any]:
    names: list[Schema] = [
        {"pattern": rng.choice(_PATTERNS)},
        {"enum": ["a", "b"]},
        {"maxLength": 1},
        {"not": {"const": "a"}},
        {"minLength": 2},
    ]
    return {"propertyNames": rng.choice(names)}


_OBJECT: Final[tuple[_Maker, ...]] = (
    _properties,
    _properties,
    lambda rng, _: {"required": _some(rng, rng.choice([1, 2]))},
    lambda rng, depth: {"additionalProperties": rng.choice([False, _schema(rng, depth)])},
    lambda rng, depth: {"patternProperties": {rng.choice(_PATTERNS): _schema(rng, depth)}},
    _names,
    lambda rng, _: {"minProperties": rng.choice([1, 2])},
    lambda rng, _: {"maxProperties": rng.choice([0, 1, 2])},
    lambda rng, _: {"dependentRequired": {rng.choice(_NAMES): _some(rng, 1)}},
    lambda rng, depth: {"dependentSchemas": {rng.choice(_NAMES): _schema(rng, depth)}},
    lambda rng, depth: {"unevaluatedProperties": rng.choice([False, _schema(rng, depth)])},
)
_ARRAY: Final[tuple[_Maker, ...]] = (
    lambda rng, depth: {"items": _schema(rng, depth)},
    _prefix,
    _contains,
    lambda rng, _: {"minItems": rng.choice([1, 2, 3])},
    lambda rng, _: {"maxItems": rng.choice([0, 1, 2, 3])},
    lambda _, __: {"uniqueItems": True},
    lambda rng, depth: {"unevaluatedItems": rng.choice([False, _schema(rng, depth)])},
)
_STRING: Final[tuple[_Maker, ...]] = (
    lambda rng, _: {"minLength": rng.choice([1, 2])},
    lambda rng, _: {"maxLength": rng.choice([0, 1, 2])},
    lambda rng, _: {"pattern": rng.choice(_PATTERNS)},
)
_NUMBER: Final[tuple[_Maker, ...]] = (
    lambda rng, _: {"minimum": rng.choice([-1, 0, 1])},
    lambda rng, _: {"exclusiveMaximum": rng.choice([0, 1, 2])},
    lambda rng, _: {"maximum": rng.choice([0, 1.5, 2])},
    lambda rng, _: {"multipleOf": rng.choice([1, 2, 3, 0.5])},
)
_JOINED: Final[tuple[_Maker, ...]] = (
    lambda rng, depth: {"anyOf": [_schema(rng, depth) for _ in range(rng.choice([2, 3]))]},
    lambda rng, depth: {"oneOf": [_schema(rng, depth) for _ in range(rng.choice([2, 3]))]},
    lambda rng, depth: {"allOf": [_schema(rng, depth) for _ in range(2)]},
    lambda rng, depth: {"not": _schema(rng, depth)},
    _condition,
    _value,
    lambda _, __: {"properties": {"a": {"$ref": "#/$defs/x"}}},
)
_ALL: Final = (*_OBJECT, *_ARRAY, *_STRING, *_NUMBER, *_JOINED)


def hard_document(rng: random.Random, depth: int = 0) -> Any:
    """A document over the same names and values."""
    if depth > _MAX_DEPTH or rng.random() < 0.35:
        return rng.choice([*_STRINGS, *_NUMBERS, True, False, None])
    if rng.random() < 0.5:
        return [hard_document(rng, depth + 1) for _ in range(rng.choice([0, 1, 2, 3]))]
    names = _some(rng, rng.choice([0, 1, 2, 3]))
    return {name: hard_document(rng, depth + 1) for name in names}


def mutated(rng: random.Random, document: Any) -> Any:
    """The document with one change somewhere, so that it is often barely valid or invalid."""
    if isinstance(document, dict) and document and rng.random() < 0.7:
        name = rng.choice(list(document))
        changed = dict(document)
        what = rng.random()
        if what < 0.2:
            del changed[name]
        elif what < 0.4:
            changed[rng.choice(_NAMES)] = hard_document(rng, 2)
        else:
            changed[name] = mutated(rng, document[name])
        return changed
    if isinstance(document, list) and document and rng.random() < 0.7:
        place = rng.randrange(len(document))
        what = rng.random()
        if what < 0.2:
            return document[:place] + document[place + 1 :]
        if what < 0.4:
            return [*document, rng.choice(document)]
        return [*document[:place], mutated(rng, document[place]), *document[place + 1 :]]
    return hard_document(rng, 1)
