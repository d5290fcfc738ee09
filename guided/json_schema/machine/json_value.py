"""A JSON text as a value, numbers exact."""

from __future__ import annotations

import json
from collections.abc import Hashable
from decimal import Decimal
from typing import Any

__all__ = ["read_value", "value_key"]


def read_value(text: bytes) -> Any:
    """The value; numbers become Decimal."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


def value_key(value: Any) -> Hashable:
    """Equal for values that are equal: booleans are no numbers, members have no order."""
    if isinstance(value, list):
        return ("array", *[value_key(item) for item in value])
    if isinstance(value, dict):
        return frozenset([(name, value_key(item)) for name, item in value.items()])
    return (value,) if isinstance(value, bool) else value
