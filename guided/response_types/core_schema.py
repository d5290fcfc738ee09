"""What pydantic's core schemas say: their parts, and constraints that functions check.

Pydantic checks some constraints by functions of its own, since their type does not know them. It
says them in its JSON Schemas as well, in words of its own (``gt``), or in those of JSON Schema
that mean something else there: ``minLength`` of a ``defaultdict``, or of the text of a ``Json``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import EncodedBytes, EncodedStr, EncoderProtocol

__all__ = [
    "CoreSchema",
    "changes_case",
    "constraint_of",
    "encoder_of",
    "joined",
    "length_keyword",
    "parts",
    "place_of",
    "without_keywords",
]

CoreSchema: TypeAlias = Mapping[str, Any]

_NAMED = {
    "dataclass-args": "fields",
    "named-tuple": "fields",
    "arguments": "arguments_schema",
    "arguments-v3": "arguments_schema",
}
"""Where the parts are that have a name, by type of core schema."""

_ONE = {"call": "arguments_schema", "json-or-python": "json_schema"}
"""Where the only part is, which stands at the same place."""

_SEVERAL = {"union": "choices", "tagged-union": "choices", "chain": "steps"}
"""Where several parts are that stand at the same place."""

_GENERAL = (
    ("schema", ""),
    ("items_schema", "[]"),
    ("keys_schema", "{key}"),
    ("values_schema", "{}"),
)
"""Where the parts of all other types are, each with its step."""


def parts(schema: CoreSchema) -> Iterator[tuple[CoreSchema, str]]:
    """The core schemas inside another, as JSON is read, each with its step in a dotted path.

    A step is the name of a field, ``[]`` for items, ``{}`` for values, ``{key}`` for keys, and
    empty for what stands at the same place.
    """
    kind = schema["type"]
    if kind in ("model-fields", "typed-dict"):
        yield from ((field["schema"], name) for name, field in schema["fields"].items())
        if "extras_schema" in schema:
            yield schema["extras_schema"], "{}"
    elif kind in _NAMED:
        yield from ((part["schema"], part["name"]) for part in schema[_NAMED[kind]])
    elif kind in _ONE:
        yield schema[_ONE[kind]], ""
    elif kind == "lax-or-strict":
        yield schema["strict_schema" if schema.get("strict") else "lax_schema"], ""
    elif kind == "tuple":
        yield from ((item, f"[{index}]") for index, item in enumerate(schema["items_schema"]))
    elif kind in _SEVERAL:
        found = schema[_SEVERAL[kind]]
        for part in found.values() if isinstance(found, Mapping) else found:
            # The choice of a union may have a label beside it.
            yield (part[0] if isinstance(part, tuple) else part), ""
    else:
        for name, step in _GENERAL:
            if isinstance(schema.get(name), Mapping):
                yield schema[name], step


def joined(place: str, step: str) -> str:
    """``a`` and ``b`` -> ``a.b``, ``a`` and ``[]`` -> ``a[]``"""
    if not step or not place:
        return place + step
    return f"{place}{step}" if step[0] in "[{" else f"{place}.{step}"


def place_of(trail: Sequence[CoreSchema]) -> str:
    """The dotted path to the last of these core schemas, each of which holds the next one.

    Where a type refers to another one by name, the path begins at that.
    """
    place = ""
    for index, schema in enumerate(trail):
        if schema["type"] == "definitions":
            place = ""
        following = [id(other) for other in trail[index + 1 : index + 3]]
        steps = [step for part, step in _parts_of(schema) if id(part) in following]
        place = joined(place, steps[0] if steps else "")
    return place


def _parts_of(schema: CoreSchema) -> Iterator[tuple[CoreSchema, str]]:
    # Fields are a level of their own there, with a schema but no name.
    return iter(()) if schema["type"].endswith("-field") else parts(schema)


# Constraints

_MODULE = "pydantic._internal._validators"
_WORDS = {"list": "Items", "dict": "Properties", "str": "Length", "bytes": "Length"}
_NAMES = ("gt", "ge", "lt", "le", "multiple_of", "max_digits", "decimal_places")
_LENGTHS = ("min_length", "max_length")
_KEYWORDS = frozenset(
    {*_NAMES} | {f"{end}{word}" for end in ("min", "max") for word in ("Length", "Items")}
)


def constraint_of(function: Callable[..., object]) -> tuple[str, object] | None:
    """The name and the value of the constraint that a function of pydantic's checks."""
    inner = function.func if isinstance(function, functools.partial) else function
    if getattr(inner, "__module__", "") != _MODULE:
        return None
    if getattr(inner, "__name__", "") == "forbid_inf_nan_check":
        return "allow_inf_nan", False
    keywords = function.keywords if isinstance(function, functools.partial) else {}
    return next((item for item in keywords.items() if item[0] in (*_NAMES, *_LENGTHS)), None)


def length_keyword(name: str, schema: CoreSchema) -> str | None:
    """The keyword of JSON Schema that holds values of a core schema to a constraint on top of it.

    ``min_length`` of an ``EmailStr`` -> ``minLength``; ``None`` where there is none.
    """
    word = _WORDS.get(_inner_kind(schema))
    return None if word is None or name not in _LENGTHS else name[:3] + word


def encoder_of(schema: CoreSchema) -> type[EncoderProtocol] | None:
    """What decodes the values of a core schema, below constraints on what it gives."""
    while schema["type"] == "function-after":
        owner = getattr(schema["function"]["function"], "__self__", None)
        if isinstance(owner, EncodedBytes | EncodedStr):
            return owner.encoder
        schema = schema["schema"]
    return None


def changes_case(schema: CoreSchema, config: Mapping[str, Any]) -> bool:
    """Whether a string becomes another one before it is decoded, which its pattern cannot see."""
    while "schema" in schema:
        schema = schema["schema"]
    return schema["type"] == "str" and any(
        schema.get(name, config.get(f"str_{name}")) for name in ("to_lower", "to_upper")
    )


def without_keywords(schema: CoreSchema) -> dict[str, Any]:
    """The core schema of a constraint without what pydantic's JSON Schema says of it."""
    metadata = schema.get("metadata", {})
    updates = metadata.get("pydantic_js_updates", {})
    kept = {word: value for word, value in updates.items() if word not in _KEYWORDS}
    return {**schema, "metadata": {**metadata, "pydantic_js_updates": kept}}


def _inner_kind(schema: CoreSchema) -> str:
    """The type of core schema below functions and choices by mode."""
    while True:
        match schema["type"]:
            case "function-after" | "function-before" | "function-wrap":
                schema = schema["schema"]
            case "json-or-python":
                schema = schema["json_schema"]
            case "lax-or-strict":
                schema = schema["strict_schema" if schema.get("strict") else "lax_schema"]
            case kind:
                return str(kind)
