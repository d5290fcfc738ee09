"""Finds the values of enumerations and literals that pydantic reads from JSON.

Their types do not determine these: a tuple is never read, a ``Decimal`` is read from a number that
equals it, and a member of a plain ``Enum`` in a ``Literal`` not even from its own value. So each
value is tried, in the spelling that the masks allow.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from pydantic_core import CoreSchema, SchemaValidator, ValidationError

__all__ = ["enum_keywords", "readable_values"]

_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def readable_values(schema: CoreSchema, values: Iterable[object]) -> list[Any]:
    """Return those of the values, as JSON values, that a validator of the core schema reads.

    A member of an enumeration stands for its value.
    """
    validator = SchemaValidator(schema)
    found = []
    for value in values:
        json_value = _json_value(value.value if isinstance(value, Enum) else value)
        if json_value is not ... and _accepts(validator, json_value):
            found.append(json_value)
    return found


def enum_keywords(values: list[Any]) -> dict[str, Any]:
    """Return the keywords of these JSON values: ``enum``, and ``type`` if they share one."""
    schema: dict[str, Any] = {"enum": values}
    types = {type(value) for value in values}
    if len(types) == 1:
        schema["type"] = _TYPE_NAMES[types.pop()]
    return schema


def _json_value(value: object) -> Any:
    """Return the JSON value that equals ``value``, ``...`` if there is none.

    It is of a type in ``_TYPE_NAMES``, and of no subclass.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # ``str()`` of a member of a StrEnum, say, may return another text.
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Decimal | Fraction) and math.isfinite(value):
        try:
            return float(value) if float(value) == value else ...
        except OverflowError:
            return ...
    return ...


def _accepts(validator: SchemaValidator, json_value: Any) -> bool:
    """Return whether a validator reads a JSON value, in the spelling that masks allow."""
    try:
        validator.validate_json(_json_text(json_value))
    except (ValidationError, ValueError):  # ValueError: an integer of too many digits
        return False
    return True


def _json_text(json_value: Any) -> str:
    """Return the canonical spelling of a JSON value: numbers have no exponent."""
    if isinstance(json_value, float):
        return f"{Decimal(repr(json_value)):f}"
    return json.dumps(json_value)
