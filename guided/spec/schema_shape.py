"""Checks the forms of keywords in schemas that are read before they are compiled."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from guided.errors import InvalidConstraintError
from guided.spec.exact_json import write_exact

__all__ = ["NOTES", "TYPES", "check_shape", "invalid_keyword", "old_draft"]

NOTES: Final = frozenset(
    {
        *("$comment", "$defs", "$schema", "default", "definitions", "deprecated", "description"),
        *("discriminator", "examples", "readOnly", "title", "writeOnly"),
    }
)
"""Keywords that do not restrict values."""
TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
"""All types of JSON Schema; an integer is also a number."""


_MAX_COUNT: Final = 1e15
"""Above any number of items that could be written."""


def _is_count(value: object) -> bool:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return False
    return 0 <= value < _MAX_COUNT and value == int(value)


def _are_types(value: object) -> bool:
    types = [value] if isinstance(value, str) else value
    return isinstance(types, list) and all(
        isinstance(each, str) and each in TYPES for each in types
    )


def _is_schema(value: object) -> bool:
    return isinstance(value, dict | bool)


def _are_schemas(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_SHAPES: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "additionalProperties": ("a schema", _is_schema),
    "allOf": ("a list of schemas", _are_schemas),
    "anyOf": ("a list of schemas", _are_schemas),
    "enum": ("a list", lambda value: isinstance(value, list)),
    "items": ("a schema", lambda value: _is_schema(value) or _are_schemas(value)),
    "maxItems": ("a number", _is_count),
    "minItems": ("a number", _is_count),
    "oneOf": ("a list of schemas", _are_schemas),
    "properties": (
        "an object of schemas",
        lambda value: isinstance(value, dict) and all(map(_is_schema, value.values())),
    ),
    "required": ("a list of names", _are_texts),
    "type": ("a type, or a list of types", _are_types),
}
"""The form of each keyword's value: a phrase, and a check."""


def invalid_keyword(schema: dict[str, Any]) -> str | None:
    """Return the first keyword of a schema whose value has the wrong form, if there is one."""
    for name, (_, is_valid) in _SHAPES.items():
        if name in schema and not is_valid(schema[name]):
            return name
    return None


def check_shape(schema: dict[str, Any], pointer: str) -> None:
    """Raise InvalidConstraintError if a keyword of this one schema has a value of the wrong form.

    The compiler checks all keywords in the same way; this is for code that runs before it.
    """
    if (name := invalid_keyword(schema)) is not None:
        raise InvalidConstraintError(
            f"{name} is {write_exact(schema[name]):.80}, not {_SHAPES[name][0]}",
            pointer=f"{pointer}/{name}",
        )


def old_draft(root: Any) -> int | None:
    """Return the draft that a schema declares, if it is one of 3 to 7."""
    uri = root.get("$schema") if isinstance(root, dict) else None
    found = re.search(r"draft-0([3-7])", str(uri))
    return None if found is None else int(found[1])
