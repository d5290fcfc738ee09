"""Integers of Python types, where numbers may be spelled in any way.

JSON Schema takes ``5.0`` and ``5e0`` for integers. Pydantic reads both as floats: those are refused
where a type is strict, lose digits beyond 2**53, and end at 64 bits. Draft 4 of JSON Schema knew
integers by their spelling, so here they are those of draft 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["with_plain_integers"]

_NAME: Final = "integer-by-spelling"  # no class has a name with hyphens
_DRAFT_4: Final = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "id": "urn:guided:integer-by-spelling",
    "type": "integer",
}
_REFERENCE: Final = {"$ref": f"#/$defs/{_NAME}"}
_BY_NAME: Final = frozenset({"properties", "$defs", "patternProperties"})
_VALUES: Final = frozenset({"default", "examples", "enum", "const"})
_LARGEST_EXACT: Final = 2**53


def with_plain_integers(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a Python type, its integers written as digits alone."""
    narrowed: dict[str, Any] = _narrowed(schema)
    if narrowed == schema:
        return schema
    return {**narrowed, "$defs": {**narrowed.get("$defs", {}), _NAME: _DRAFT_4}}


def _narrowed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_narrowed(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {
        word: {name: _narrowed(part) for name, part in value.items()}
        if word in _BY_NAME
        else value
        if word in _VALUES
        else _narrowed(value)
        for word, value in schema.items()
    }
    if schema.get("type") == "integer" or _is_large(schema.get("const")):
        return _with(found, _REFERENCE)
    if any(map(_is_large, schema.get("enum", ()))):
        others = [v for v in schema["enum"] if isinstance(v, bool) or not isinstance(v, int)]
        return _with(found, {"anyOf": [_REFERENCE, {"enum": others}]} if others else _REFERENCE)
    return found


def _with(schema: dict[str, Any], narrower: dict[str, Any]) -> dict[str, Any]:
    if schema.keys() & narrower.keys():
        return {**schema, "allOf": [*schema.get("allOf", []), narrower]}
    return {**schema, **narrower}


def _is_large(value: object) -> bool:
    return isinstance(value, int) and abs(value) > _LARGEST_EXACT
