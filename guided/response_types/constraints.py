"""Constraints that pydantic checks by functions of its own, since their type does not know them.

It says them in its JSON Schemas as well, in words of its own (``gt``), or in those of JSON Schema
that mean something else there: ``minLength`` of a ``defaultdict``, or of the text of a ``Json``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import EncodedBytes, EncodedStr, EncoderProtocol

__all__ = ["changes_case", "constraint_of", "encoder_of", "length_keyword", "without_keywords"]

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


def length_keyword(name: str, schema: Mapping[str, Any]) -> str | None:
    """The keyword of JSON Schema that holds values of a core schema to a constraint on top of it.

    ``min_length`` of an ``EmailStr`` -> ``minLength``; ``None`` where there is none.
    """
    word = _WORDS.get(_kind(schema))
    return None if word is None or name not in _LENGTHS else name[:3] + word


def encoder_of(schema: Mapping[str, Any]) -> type[EncoderProtocol] | None:
    """What decodes the values of a core schema, below constraints on what it gives."""
    while schema["type"] == "function-after":
        owner = getattr(schema["function"]["function"], "__self__", None)
        if isinstance(owner, EncodedBytes | EncodedStr):
            return owner.encoder
        schema = schema["schema"]
    return None


def changes_case(schema: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether a string becomes another one before it is decoded, which its pattern cannot see."""
    while "schema" in schema:
        schema = schema["schema"]
    return schema["type"] == "str" and any(
        schema.get(name, config.get(f"str_{name}")) for name in ("to_lower", "to_upper")
    )


def without_keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The core schema of a constraint without what pydantic's JSON Schema says of it."""
    metadata = schema.get("metadata", {})
    updates = metadata.get("pydantic_js_updates", {})
    kept = {word: value for word, value in updates.items() if word not in _KEYWORDS}
    return {**schema, "metadata": {**metadata, "pydantic_js_updates": kept}}


def _kind(schema: Mapping[str, Any]) -> str:
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
