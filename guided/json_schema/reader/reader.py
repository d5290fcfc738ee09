"""The text of a schema → JSON values, with exact numbers and without silent losses."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias

from guided.errors import InvalidConstraintError, LimitExceededError
from guided.json_schema.reader.faults import (
    MAX_DEPTH,
    MAX_NUMBER_DIGITS,
    first_fault,
    has_too_many_digits,
    syntax_fault,
)

__all__ = [
    "MAX_SCHEMA_BYTES",
    "Json",
    "is_number",
    "json_text",
    "read_schema",
]

MAX_SCHEMA_BYTES: Final = 1_000_000

Json: TypeAlias = Any
"""A parsed JSON value: dict, list, str, bool, None, int or Decimal."""


def read_schema(text: str, base: str = "") -> Json:
    """Parse a schema; numbers that are not integers become Decimal.

    Raises InvalidConstraintError for text that is no JSON, that names a member twice, that holds
    half a surrogate pair or that is neither an object nor a boolean, and LimitExceededError for
    what is too large, nested too deeply, or a number of too many digits. ``base`` is the JSON
    pointer of the root, behind the URI of a document.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_SCHEMA_BYTES:
        raise LimitExceededError(
            f"the {'document' if base else 'schema'} has {size} bytes, more than "
            f"{MAX_SCHEMA_BYTES}",
            limit=MAX_SCHEMA_BYTES,
            field="constraint",
            pointer=base,
            hint="leave out notes and examples, or the parts that nothing refers to",
        )
    try:
        schema = json.loads(
            text,
            parse_int=_whole_number,
            parse_float=_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_duplicates,
        )
        _check_depth(schema)
        _check_strings(schema, text)
    except json.JSONDecodeError as error:
        raise syntax_fault(text, error, base) from error
    except (_FaultError, RecursionError) as fault:
        raise first_fault(text, base) or fault from fault
    if not isinstance(schema, dict | bool):
        raise InvalidConstraintError(
            f"a schema is an object or a boolean, not {json_text(schema)[:40]}", pointer=base
        )
    return schema


def is_number(value: Json) -> bool:
    """Whether the value is a JSON number."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def json_text(value: Json) -> str:
    """The value in compact JSON, numbers without exponent."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, list):
        return "[" + ",".join(json_text(item) for item in value) + "]"
    if isinstance(value, dict):
        members = [f"{json_text(key)}:{json_text(item)}" for key, item in value.items()]
        return "{" + ",".join(members) + "}"
    return json.dumps(value, ensure_ascii=False)


class _FaultError(Exception):
    """Something may not stand in a schema; ``faults`` knows what and where."""


def _check_depth(schema: Json) -> None:
    level = [schema] if isinstance(schema, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            part
            for value in level
            for part in (value.values() if type(value) is dict else value)
            if type(part) is dict or type(part) is list
        ]
        if not level:
            return
    raise _FaultError


def _check_strings(schema: Json, text: str) -> None:
    """Refuse strings that no UTF-8 text can hold."""
    held = text
    if _ESCAPED_SURROGATE.search(text):
        held = json.dumps(schema, ensure_ascii=False, default=str)
    try:
        held.encode()
    except UnicodeEncodeError as error:
        raise _FaultError from error


_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _whole_number(text: str) -> int:
    if len(text) > MAX_NUMBER_DIGITS:
        raise _FaultError
    return int(text)


def _number(text: str) -> Decimal:
    if has_too_many_digits(text):
        raise _FaultError
    return Decimal(text)


def _refuse_constant(_: str) -> NoReturn:
    raise _FaultError


def _object_without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _FaultError
    return members
