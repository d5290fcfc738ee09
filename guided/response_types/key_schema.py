"""The names of members that pydantic reads as keys of some type."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from guided.response_types.ranges import integers_between

__all__ = ["definition_name", "key_schema"]

# Of at most 15 digits, so that a float tells them apart, and one spelling each.
_FRACTIONS = r"(?:0|-?[1-9]\d{0,8}|-?(?:0|[1-9]\d{0,8})\.\d{0,5}[1-9])"
_LARGEST = 10**15 - 1


def key_schema(keys: dict[str, Any], definitions: Mapping[Any, Any], ref: str) -> Any:
    """The schema of the names that stand for keys of a type with the given schema.

    Values are spelled as ``json.dumps`` would: ``{"type": "boolean"}`` -> ``{"enum": ["true",
    "false"]}``. ``True`` for any name; ``ValueError`` where no schema tells which names are read.
    """
    if "$ref" in keys:
        return key_schema(definitions[definition_name(keys["$ref"], ref)], definitions, ref)
    if not keys:
        return True
    for joint in ("anyOf", "oneOf"):
        if joint in keys:
            forms = [key_schema(form, definitions, ref) for form in keys[joint]]
            read = [form for form in forms if form is not False]
            return {"anyOf": read} if read else False
    if "enum" in keys or "const" in keys:
        names = _spelled(keys.get("enum", [keys.get("const")]))
        return {"enum": names} if names else False
    match keys.get("type"):
        case "string":
            return {name: value for name, value in keys.items() if name not in _NOTES} or True
        case "integer" | "number":
            return {"pattern": f"^(?:{_numbers(keys)})$"}
        case "boolean":
            return {"enum": ["true", "false"]}
        case "null" | "array" | "object":
            return False
    raise ValueError(f"keys that are {json.dumps(keys)}")


_NOTES = frozenset({"type", "title", "description", "default", "examples", "deprecated"})


def definition_name(reference: str, template: str) -> str:
    """The name of a definition: ``#/$defs/Person`` -> ``Person``."""
    prefix, _, suffix = template.partition("{model}")
    return reference.removeprefix(prefix).removesuffix(suffix)


def _spelled(values: list[Any]) -> list[str]:
    # Of an enumeration pydantic takes strings and booleans by their name, but numbers only where
    # it is an IntEnum, which its schema does not tell.
    return [
        value if isinstance(value, str) else json.dumps(value)
        for value in values
        if isinstance(value, str | bool)
    ]


def _numbers(keys: dict[str, Any]) -> str:
    """Integers where there are bounds, else decimals."""
    multiple = Fraction(str(keys.get("multipleOf", 1)))
    if multiple.numerator != 1:
        raise ValueError(f"keys that are multiples of {keys['multipleOf']}")
    low, high = -_LARGEST, _LARGEST
    if "minimum" in keys:
        low = max(low, math.ceil(keys["minimum"]))
    if "exclusiveMinimum" in keys:
        low = max(low, math.floor(keys["exclusiveMinimum"]) + 1)
    if "maximum" in keys:
        high = min(high, math.floor(keys["maximum"]))
    if "exclusiveMaximum" in keys:
        high = min(high, math.ceil(keys["exclusiveMaximum"]) - 1)
    is_free = (low, high) == (-_LARGEST, _LARGEST) and "multipleOf" not in keys
    return _FRACTIONS if is_free and keys["type"] == "number" else integers_between(low, high)
