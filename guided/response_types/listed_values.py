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

_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def readable_values(schema: CoreSchema, values: Iterable[object]) -> list[Any]:
    """Return those of the values, as JSON values, that a validator of the core schema reads."""
    validator = SchemaValidator(schema)
    found = []
    for value in values:
        plain = _json_value(value.value if isinstance(value, Enum) else value)
        if plain is not ... and _accepts(validator, plain):
            found.append(plain)
    return found


def enum_keywords(values: list[Any]) -> dict[str, Any]:
    """Return the keywords of these values: ``enum``, and ``type`` if they share one."""
    schema: dict[str, Any] = {"enum": values}
    kinds = {type(value) for value in values}
    if len(kinds) == 1:
        schema["type"] = _NAMES[kinds.pop()]
    return schema


def _json_value(value: object) -> Any:
    """Return the JSON value that equals it, ``...`` if there is none."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Decimal | Fraction) and math.isfinite(value):
        try:
            return float(value) if float(value) == value else ...
        except OverflowError:
            return ...
    return ...


def _accepts(validator: SchemaValidator, plain: Any) -> bool:
    try:
        validator.validate_json(_text(plain))
    except (ValidationError, ValueError):  # ValueError: an integer of too many digits
        return False
    return True


def _text(plain: Any) -> str:
    return f"{Decimal(repr(plain)):f}" if isinstance(plain, float) else json.dumps(plain)
