"""JSON text to values and back, with every number as it is written."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

__all__ = ["parse_decimal", "read_exact", "refuse_constant", "write_exact"]

_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def read_exact(text: str) -> Any:
    """Parse JSON; numbers with a fraction or an exponent become Decimal.

    Raises ValueError for text that is no JSON and for repeated names of members, RecursionError for
    text that nests too deeply.
    """
    return json.loads(
        text,
        parse_float=parse_decimal,
        parse_constant=refuse_constant,
        object_pairs_hook=_object,
    )


def write_exact(value: Any) -> str:
    """Return a value in compact JSON; it recurses once for each level."""
    try:
        return _encode(value)
    except TypeError:  # of a Decimal, which the fast encoder does not know
        return _write(value)


def _write(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, dict):
        members = [f"{_encode(name)}:{_write(item)}" for name, item in value.items()]
        return "{" + ",".join(members) + "}"
    return _encode(value)


def parse_decimal(text: str) -> Decimal:
    """Return the number of a JSON text; raises ValueError if its exponent is too large."""
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"the exponent of {text[:40]} is too large") from error


def refuse_constant(name: str) -> NoReturn:
    """Raise ValueError for a constant that Python writes but JSON does not have."""
    raise ValueError(f"{name} is no number of JSON")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        ((name, _),) = Counter(name for name, _ in members).most_common(1)
        raise ValueError(f"an object has {name[:80]!r} twice")
    return found
