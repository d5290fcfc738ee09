"""A JSON text as a value, numbers exact."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

__all__ = ["read_value"]


def read_value(text: bytes) -> Any:
    """The value; numbers become Decimal."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)
