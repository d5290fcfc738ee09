"""JSON text to values and back, with every number as it is written."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

from guided.errors import LimitExceededError

__all__ = [
    "check_text_values",
    "has_more_values",
    "parse_decimal",
    "read_exact",
    "refuse_constant",
    "write_exact",
]

MAX_TEXT_VALUES: Final = 200_000
"""The most values of a JSON text inside a message: Python parses it at once, without a pause."""
_OF_A_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether a JSON text has more than ``most`` values, before any is made.

    Lists, objects, members and all elements of a list but the first count.
    """
    if len(text) <= most or _num_signs(text) <= most:
        return False
    return _num_signs(_OF_A_TEXT.sub(b'""', text)) > most


def _num_signs(text: bytes) -> int:
    return sum(map(text.count, (b",", b":", b"[", b"{")))


def check_text_values(text: str, subject: str, field: str) -> None:
    """Raise LimitExceededError for a JSON text of very many values; ``subject`` is a plural."""
    if has_more_values(text.encode(errors="replace"), MAX_TEXT_VALUES):
        raise LimitExceededError(
            f"{subject} have more than {MAX_TEXT_VALUES} values",
            limit=MAX_TEXT_VALUES,
            field=field,
            hint="send less at once",
        )


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
