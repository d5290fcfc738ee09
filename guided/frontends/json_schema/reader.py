"""The text of a schema → JSON values, with exact numbers and without silent losses."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias

from guided.errors import InvalidConstraintError, LimitExceededError

__all__ = [
    "MAX_DEPTH",
    "MAX_NUMBER_DIGITS",
    "MAX_SCHEMA_BYTES",
    "Json",
    "child",
    "is_number",
    "json_text",
    "read_schema",
]

MAX_SCHEMA_BYTES = 1_000_000
MAX_DEPTH = 200
MAX_NUMBER_DIGITS = 400

Json: TypeAlias = Any
"""A parsed JSON value: dict, list, str, bool, None, int or Decimal."""


def read_schema(text: str) -> Json:
    """Parse a schema; numbers that are not integers become Decimal.

    Raises InvalidConstraintError for text that is no JSON, that names a member twice, that holds
    half a surrogate pair or that is neither an object nor a boolean, and LimitExceededError for
    what is too large, nested too deeply, or a number of too many digits.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_SCHEMA_BYTES:
        raise _too_much(f"the schema has {size} bytes, more than", MAX_SCHEMA_BYTES)
    try:
        schema = json.loads(
            text,
            parse_int=_whole_number,
            parse_float=_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_duplicates,
        )
    except json.JSONDecodeError as error:
        raise InvalidConstraintError(
            f"the schema is not JSON: {error.msg} in line {error.lineno}, column {error.colno}",
            position=error.pos,
        ) from error
    except RecursionError as error:
        raise _too_much("the schema is nested deeper than", MAX_DEPTH) from error
    if isinstance(schema, dict | list):
        _check_depth(schema)
        if _SURROGATE.search(text):
            _check_strings(schema)
    if not isinstance(schema, dict | bool):
        raise InvalidConstraintError(
            f"a schema is an object or a boolean, not {json_text(schema)[:40]}", pointer=""
        )
    return schema


def child(pointer: str, *tokens: str | int) -> str:
    """The JSON pointer (RFC 6901) of something inside what ``pointer`` points at."""
    for token in tokens:
        pointer += "/" + str(token).replace("~", "~0").replace("/", "~1")
    return pointer


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
        members = (f"{json_text(key)}:{json_text(item)}" for key, item in value.items())
        return "{" + ",".join(members) + "}"
    return json.dumps(value, ensure_ascii=False)


def _too_much(what: str, limit: int) -> LimitExceededError:
    return LimitExceededError(f"{what} {limit}", limit=limit, field="constraint")


def _check_depth(schema: Json) -> None:
    stack = [(schema, 1)]
    while stack:
        value, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise _too_much("the schema is nested deeper than", MAX_DEPTH)
        parts = value.values() if isinstance(value, dict) else value
        stack += ((part, depth + 1) for part in parts if isinstance(part, dict | list))


def _check_strings(schema: Json) -> None:
    """Refuse strings that no UTF-8 text can hold."""
    stack = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += value
            stack += value.values()
        elif isinstance(value, list):
            stack += value
        elif isinstance(value, str) and _HALF_PAIR.search(value):
            raise InvalidConstraintError(
                f"the string {value[:40]!r} holds half of a surrogate pair, which no text can"
            )


_HALF_PAIR = re.compile("[\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")
"""In the text of a schema, before its escapes are undone."""


def _whole_number(text: str) -> int:
    if len(text) > MAX_NUMBER_DIGITS:
        raise _too_much(f"the number {text[:20]}… has more digits than", MAX_NUMBER_DIGITS)
    return int(text)


def _number(text: str) -> Decimal:
    digits, _, exponent = text.lower().partition("e")
    shift = 0 if not exponent else abs(int(exponent)) if len(exponent) < 6 else MAX_NUMBER_DIGITS
    if len(digits) + shift > MAX_NUMBER_DIGITS:
        raise _too_much(f"the number {text[:20]}… has more digits than", MAX_NUMBER_DIGITS)
    return Decimal(text)


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidConstraintError(f"the schema holds {name}, which is no JSON number")


def _object_without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for name, count in Counter(n for n, _ in pairs).items() if count > 1)
        raise InvalidConstraintError(
            f"an object of the schema names the member {twice!r} twice",
            hint="keep one of the two",
        )
    return members
