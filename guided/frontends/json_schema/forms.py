"""What the value of each assertion keyword has to look like, whatever type it applies to."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from guided.errors import InvalidConstraintError
from guided.frontends.json_schema.keywords import TYPES
from guided.frontends.json_schema.reader import Json, child, json_text

__all__ = ["check_forms", "is_number"]


def check_forms(schema: dict[str, Json], pointer: str) -> None:
    """Raise InvalidConstraintError for the first keyword whose value has the wrong form."""
    for keyword, value in schema.items():
        if keyword not in _FORMS:
            continue
        fits, form = _FORMS[keyword]
        if not fits(value):
            raise InvalidConstraintError(
                f"{keyword} is {form}, not {json_text(value)[:40]}", pointer=child(pointer, keyword)
            )
    for index, name in enumerate(schema.get("required", [])):
        if not isinstance(name, str):
            raise InvalidConstraintError(
                f"required lists names, not {json_text(name)[:40]}",
                pointer=child(pointer, "required", index),
            )
    types = schema.get("type", [])
    for name in types if isinstance(types, list) else [types]:
        if name not in TYPES:
            raise InvalidConstraintError(
                f"{json_text(name)} is no type",
                pointer=child(pointer, "type"),
                hint="one of " + ", ".join(TYPES),
            )


def is_number(value: Json) -> bool:
    """Whether the value is a JSON number."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_count(value: Json) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _is_positive(value: Json) -> bool:
    return is_number(value) and value > 0


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _is_filled_list(value: Json) -> bool:
    return isinstance(value, list) and bool(value)


def _is_object(value: Json) -> bool:
    return isinstance(value, dict)


def _is_string(value: Json) -> bool:
    return isinstance(value, str)


def _is_type(value: Json) -> bool:
    return isinstance(value, str) or _is_filled_list(value)


_Form = tuple[Callable[[Json], bool], str]
_COUNT: _Form = (_is_count, "a whole number from 0 on")
_NUMBER: _Form = (is_number, "a number")
_STRING: _Form = (_is_string, "a string")
_SCHEMAS: _Form = (_is_filled_list, "a list of at least one schema")

_FORMS: dict[str, _Form] = {
    "$ref": _STRING,
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "enum": (_is_list, "a list"),
    "exclusiveMaximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "format": _STRING,
    "maxItems": _COUNT,
    "maxLength": _COUNT,
    "maxProperties": _COUNT,
    "maximum": _NUMBER,
    "minItems": _COUNT,
    "minLength": _COUNT,
    "minProperties": _COUNT,
    "minimum": _NUMBER,
    "multipleOf": (_is_positive, "a number above 0"),
    "oneOf": _SCHEMAS,
    "pattern": _STRING,
    "prefixItems": _SCHEMAS,
    "properties": (_is_object, "an object"),
    "required": (_is_list, "a list"),
    "type": (_is_type, "a name or a list of at least one name"),
}
