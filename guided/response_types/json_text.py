"""JSON inside a string: simple schemas as patterns of the texts that fit them.

The texts are compact JSON with the members in the order of the schema, optional ones included.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from guided.response_types.key_schema import definition_name
from guided.response_types.literal import literal
from guided.response_types.ranges import integers_between

__all__ = ["JsonText"]

_DEEPEST = 8
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated"})
_KNOWN = {
    "boolean": set[str](),
    "null": set[str](),
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": set[str](),
    "string": {"minLength", "maxLength"},
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
}
"""The keywords that a pattern can hold a value to, by type."""

_CHARACTER = r'[^"\\\u0000-\u001f]'
_NUMBER = r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,6})?"
_MOST_DIGITS = 18
_SCALAR = rf'(?:"{_CHARACTER}{{0,100}}"|{_NUMBER}|true|false|null)'
_ANY = (
    rf"(?:{_SCALAR}|\[(?:{_SCALAR}(?:,{_SCALAR}){{0,20}})?\]"
    rf'|\{{(?:"{_CHARACTER}{{0,40}}":{_SCALAR})?\}})'
)
"""Scalars, flat arrays of them, and objects of one member."""


class JsonText:
    """Patterns for the schemas among some definitions."""

    def __init__(self, definitions: Mapping[Any, Any], ref_template: str) -> None:
        self._definitions = definitions
        self._ref_template = ref_template

    def pattern(self, schema: dict[str, Any], depth: int = 0) -> str:
        """Texts that fit the schema; ``ValueError`` for one that is more than a pattern can say."""
        if depth > _DEEPEST:
            raise ValueError("of a type that is nested too deeply")
        if not schema.keys() - _NOTES:
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
            return f"(?:{'|'.join(_spelled(value) for value in values)})"
        kind = schema.get("type")
        unknown = schema.keys() - _NOTES - {"type"} - _KNOWN.get(str(kind), set())
        if not isinstance(kind, str) or unknown:
            raise ValueError(f"with {', '.join(map(repr, sorted(unknown))) or 'several types'}")
        return self._of_type(kind, schema, depth)

    def _of_type(self, kind: str, schema: dict[str, Any], depth: int) -> str:
        match kind:
            case "null":
                return "null"
            case "boolean":
                return "(?:true|false)"
            case "integer":
                return _integers(schema)
            case "number":
                return _NUMBER
            case "string":
                return f'"{_CHARACTER}{_times(schema, "Length")}"'
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
                f"{_spelled(name)}:{self.pattern(value, depth + 1)}"
                for name, value in schema["properties"].items()
                if value is not False
            ]
            return rf"\{{{','.join(members)}\}}"
        values = schema.get("additionalProperties", True)
        value = self.pattern({} if values is True else values, depth + 1)
        return rf'\{{(?:"{_CHARACTER}{{0,40}}":{value})?\}}'


def _spelled(value: object) -> str:
    return literal(json.dumps(value, ensure_ascii=False))


def _integers(schema: dict[str, Any]) -> str:
    low, high = -(10**_MOST_DIGITS), 10**_MOST_DIGITS
    low = max(low, math.ceil(schema.get("minimum", low)))
    low = max(low, math.floor(schema.get("exclusiveMinimum", low - 1)) + 1)
    high = min(high, math.floor(schema.get("maximum", high)))
    high = min(high, math.ceil(schema.get("exclusiveMaximum", high + 1)) - 1)
    return integers_between(low, high)


def _times(schema: dict[str, Any], what: str) -> str:
    return f"{{{schema.get(f'min{what}', 0)},{schema.get(f'max{what}', '')}}}"
