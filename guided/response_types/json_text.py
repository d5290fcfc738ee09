"""Turns schemas into patterns of text: for the keys of objects, and for JSON inside a string.

Texts inside a string are compact JSON, with the members in the order of the schema, including
optional ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from guided.response_types.pattern_text import integers_between, literal

__all__ = ["JsonText", "key_schema"]

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated"})

# At most 15 digits, so that floats distinguish them, and one spelling each.
_FRACTIONS = r"(?:0|-?[1-9]\d{0,8}|-?(?:0|[1-9]\d{0,8})\.\d{0,5}[1-9])"
_LARGEST = 10**15 - 1


def key_schema(keys: dict[str, Any], definitions: Mapping[Any, Any], ref: str) -> Any:
    """Return the schema of names of members that are read as keys with the given schema.

    Values are spelled as by ``json.dumps``: ``{"type": "boolean"}`` -> ``{"enum": ["true",
    "false"]}``. ``True`` for any name; raises ``ValueError`` if no schema describes the names.
    """
    if "$ref" in keys:
        return key_schema(definitions[definition_name(keys["$ref"], ref)], definitions, ref)
    if not keys:
        return True
    for joint in ("anyOf", "oneOf"):
        if joint in keys:
            forms = [key_schema(form, definitions, ref) for form in keys[joint]]
            possible = [form for form in forms if form is not False]
            return {"anyOf": possible} if possible else False
    if "enum" in keys or "const" in keys:
        names = _key_names(keys.get("enum", [keys.get("const")]))
        return {"enum": names} if names else False
    match keys.get("type"):
        case "string":
            return {
                name: value for name, value in keys.items() if name not in _ANNOTATIONS | {"type"}
            } or True
        case "integer" | "number":
            return {"pattern": f"^(?:{_numbers(keys)})$"}
        case "boolean":
            return {"enum": ["true", "false"]}
        case "null" | "array" | "object":
            return False
    raise ValueError(f"keys that are {json.dumps(keys)}")


def definition_name(reference: str, template: str) -> str:
    """Return the name of a definition: ``#/$defs/Person`` -> ``Person``."""
    prefix, _, suffix = template.partition("{model}")
    return reference.removeprefix(prefix).removesuffix(suffix)


def _key_names(values: list[Any]) -> list[str]:
    # For an enumeration pydantic takes strings and booleans by name, but numbers only if it is an
    # IntEnum, which its schema does not show.
    return [
        value if isinstance(value, str) else json.dumps(value)
        for value in values
        if isinstance(value, str | bool)
    ]


def _numbers(keys: dict[str, Any]) -> str:
    """Return a pattern of integers if there are bounds, else of decimals."""
    multiple = Fraction(str(keys.get("multipleOf", 1)))
    if multiple.numerator != 1:
        raise ValueError(f"keys that are multiples of {keys['multipleOf']}")
    low, high = _whole_bounds(keys, _LARGEST)
    is_free = (low, high) == (-_LARGEST, _LARGEST) and "multipleOf" not in keys
    return _FRACTIONS if is_free and keys["type"] == "number" else integers_between(low, high)


_MAX_DEPTH = 8
_ENFORCEABLE = {
    "boolean": set[str](),
    "null": set[str](),
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": set[str](),
    "string": {"minLength", "maxLength"},
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
}
"""The keywords that a pattern can enforce, by type."""

_CHARACTER = r'[^"\\\u0000-\u001f]'
_NUMBER = r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,6})?"
_MAX_DIGITS = 18
_SCALAR = rf'(?:"{_CHARACTER}{{0,100}}"|{_NUMBER}|true|false|null)'
_ANY = (
    rf"(?:{_SCALAR}|\[(?:{_SCALAR}(?:,{_SCALAR}){{0,20}})?\]"
    rf'|\{{(?:"{_CHARACTER}{{0,40}}":{_SCALAR})?\}})'
)
"""Scalars, flat arrays of them, and objects with one member."""


class JsonText:
    """Makes patterns of the JSON texts of schemas, which may refer to ``definitions``."""

    def __init__(self, definitions: Mapping[Any, Any], ref_template: str) -> None:
        self._definitions = definitions
        self._ref_template = ref_template

    def pattern(self, schema: dict[str, Any], depth: int = 0) -> str:
        """Return a pattern of the JSON texts that fit; raises ``ValueError`` if there is none."""
        if depth > _MAX_DEPTH:
            raise ValueError("of a type that is nested too deeply")
        if not schema.keys() - _ANNOTATIONS:
            return _ANY
        if "$ref" in schema:
            name = definition_name(schema["$ref"], self._ref_template)
            if name not in self._definitions:
                raise ValueError("of a type that holds itself")
            return self.pattern(self._definitions[name], depth + 1)
        if "anyOf" in schema:
            options = [self.pattern(option, depth + 1) for option in schema["anyOf"]]
            return f"(?:{'|'.join(options)})"
        if "enum" in schema or "const" in schema:
            values = schema.get("enum", [schema.get("const")])
            return f"(?:{'|'.join(_json_literal(value) for value in values)})"
        kind = schema.get("type")
        unsupported = schema.keys() - _ANNOTATIONS - {"type"} - _ENFORCEABLE.get(str(kind), set())
        if not isinstance(kind, str) or unsupported:
            raise ValueError(f"with {', '.join(map(repr, sorted(unsupported))) or 'several types'}")
        return self._of_type(kind, schema, depth)

    def _of_type(self, kind: str, schema: dict[str, Any], depth: int) -> str:
        match kind:
            case "null":
                return "null"
            case "boolean":
                return "(?:true|false)"
            case "integer":
                return integers_between(*_whole_bounds(schema, 10**_MAX_DIGITS))
            case "number":
                return _NUMBER
            case "string":
                low, high = schema.get("minLength", 0), schema.get("maxLength", "")
                return f'"{_CHARACTER}{{{low},{high}}}"'
            case "array":
                return self._array(schema, depth)
            case _:
                return self._object(schema, depth)

    def _array(self, schema: dict[str, Any], depth: int) -> str:
        item = self.pattern(schema.get("items", {}), depth + 1)
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return r"\[\]"
        further = f"{{{max(least - 1, 0)},{'' if most is None else most - 1}}}"
        some = f"{item}(?:,{item}){further}"
        return rf"\[{some}\]" if least else rf"\[(?:{some})?\]"

    def _object(self, schema: dict[str, Any], depth: int) -> str:
        if "properties" in schema:
            members = [
                f"{_json_literal(name)}:{self.pattern(value, depth + 1)}"
                for name, value in schema["properties"].items()
                if value is not False
            ]
            return rf"\{{{','.join(members)}\}}"
        values = schema.get("additionalProperties", True)
        value = self.pattern({} if values is True else values, depth + 1)
        return rf'\{{(?:"{_CHARACTER}{{0,40}}":{value})?\}}'


def _json_literal(value: object) -> str:
    return literal(json.dumps(value, ensure_ascii=False))


def _whole_bounds(schema: dict[str, Any], largest: int) -> tuple[int, int]:
    """Return the least and the greatest integer that fits, neither beyond ``largest``."""
    low = max(-largest, math.ceil(schema.get("minimum", -largest)))
    low = max(low, math.floor(schema.get("exclusiveMinimum", low - 1)) + 1)
    high = min(largest, math.floor(schema.get("maximum", largest)))
    high = min(high, math.ceil(schema.get("exclusiveMaximum", high + 1)) - 1)
    return low, high
