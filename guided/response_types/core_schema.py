"""Reads pydantic's core schemas: their parts, and constraints that functions check.

Pydantic checks some constraints with functions, for types that do not support them. Its JSON
Schemas have these in terms of its own (``gt``), or in keywords of JSON Schema that mean something
else there: ``minLength`` for a ``defaultdict``, or for the text of a ``Json``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import EncodedBytes, EncodedStr, EncoderProtocol

__all__ = [
    "CoreSchema",
    "constraint_of",
    "encoder_of",
    "has_case_conversion",
    "join_path",
    "length_keyword",
    "parts",
    "path_of",
    "without_keywords",
]

CoreSchema: TypeAlias = Mapping[str, Any]

_NAMED_PARTS = {
    "dataclass-args": "fields",
    "named-tuple": "fields",
    "arguments": "arguments_schema",
    "arguments-v3": "arguments_schema",
}
"""The key of parts with a name, by type of core schema."""

_ONLY_PART = {"call": "arguments_schema", "json-or-python": "json_schema"}
"""The key of the only part, which has the same path."""

_ALTERNATIVES = {"union": "choices", "tagged-union": "choices", "chain": "steps"}
"""The key of alternatives or steps, which have the same path."""

_OTHER_PARTS = (
    ("schema", ""),
    ("items_schema", "[]"),
    ("keys_schema", "{key}"),
    ("values_schema", "{}"),
)
"""The keys of the parts of all other types, each with the step of its path."""


def parts(schema: CoreSchema) -> Iterator[tuple[CoreSchema, str]]:
    """Yield the core schemas inside another, as JSON is read, each with its step in a dotted path.

    A step is the name of a field, ``[]`` for items, ``{}`` for values, ``{key}`` for keys, and
    empty for a part at the same place.
    """
    kind = schema["type"]
    if kind in ("model-fields", "typed-dict"):
        yield from ((field["schema"], name) for name, field in schema["fields"].items())
        if "extras_schema" in schema:
            yield schema["extras_schema"], "{}"
    elif kind in _NAMED_PARTS:
        yield from ((part["schema"], part["name"]) for part in schema[_NAMED_PARTS[kind]])
    elif kind in _ONLY_PART:
        yield schema[_ONLY_PART[kind]], ""
    elif kind == "lax-or-strict":
        yield schema["strict_schema" if schema.get("strict") else "lax_schema"], ""
    elif kind == "tuple":
        yield from ((item, f"[{index}]") for index, item in enumerate(schema["items_schema"]))
    elif kind in _ALTERNATIVES:
        found = schema[_ALTERNATIVES[kind]]
        for part in found.values() if isinstance(found, Mapping) else found:
            # The choice of a union may have a label with it.
            yield (part[0] if isinstance(part, tuple) else part), ""
    else:
        for name, step in _OTHER_PARTS:
            if isinstance(schema.get(name), Mapping):
                yield schema[name], step


def join_path(path: str, step: str) -> str:
    """Append a step to a dotted path: ``a`` and ``b`` -> ``a.b``, ``a`` and ``[]`` -> ``a[]``."""
    if not step or not path:
        return path + step
    return f"{path}{step}" if step[0] in "[{" else f"{path}.{step}"


def path_of(ancestors: Sequence[CoreSchema]) -> str:
    """Return the dotted path to the last of these core schemas, each of which contains the next.

    If a type refers to another by name, the path begins there.
    """
    path = ""
    for index, schema in enumerate(ancestors):
        if schema["type"] == "definitions":
            path = ""
        following = [id(other) for other in ancestors[index + 1 : index + 3]]
        steps = [step for part, step in _parts_of(schema) if id(part) in following]
        path = join_path(path, steps[0] if steps else "")
    return path


def _parts_of(schema: CoreSchema) -> Iterator[tuple[CoreSchema, str]]:
    # Among the ancestors, fields are a separate level, with a schema but no name.
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
    """Return the name and the value of the constraint that a function of pydantic checks."""
    inner = function.func if isinstance(function, functools.partial) else function
    if getattr(inner, "__module__", "") != _MODULE:
        return None
    if getattr(inner, "__name__", "") == "forbid_inf_nan_check":
        return "allow_inf_nan", False
    keywords = function.keywords if isinstance(function, functools.partial) else {}
    return next((item for item in keywords.items() if item[0] in (*_NAMES, *_LENGTHS)), None)


def length_keyword(name: str, schema: CoreSchema) -> str | None:
    """Return the keyword of JSON Schema that enforces a constraint on values of a core schema.

    ``min_length`` of an ``EmailStr`` -> ``minLength``; ``None`` if there is none.
    """
    word = _WORDS.get(_inner_kind(schema))
    return None if word is None or name not in _LENGTHS else name[:3] + word


def encoder_of(schema: CoreSchema) -> type[EncoderProtocol] | None:
    """Return the decoder of a core schema's values, below constraints on the decoded value."""
    while schema["type"] == "function-after":
        owner = getattr(schema["function"]["function"], "__self__", None)
        if isinstance(owner, EncodedBytes | EncodedStr):
            return owner.encoder
        schema = schema["schema"]
    return None


def has_case_conversion(schema: CoreSchema, config: Mapping[str, Any]) -> bool:
    """Return whether the case of a string is changed before it is decoded, against its pattern."""
    while "schema" in schema:
        schema = schema["schema"]
    return schema["type"] == "str" and any(
        schema.get(name, config.get(f"str_{name}")) for name in ("to_lower", "to_upper")
    )


def without_keywords(schema: CoreSchema) -> dict[str, Any]:
    """Return a core schema without the keywords of constraints in its JSON Schema."""
    metadata = schema.get("metadata", {})
    updates = metadata.get("pydantic_js_updates", {})
    kept = {keyword: value for keyword, value in updates.items() if keyword not in _KEYWORDS}
    return {**schema, "metadata": {**metadata, "pydantic_js_updates": kept}}


def _inner_kind(schema: CoreSchema) -> str:
    """Return the type of core schema below functions and choices by mode."""
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
