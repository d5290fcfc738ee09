"""The text of a schema → JSON values, with exact numbers and without silent losses."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias

from guided.errors import InvalidConstraintError, LimitExceededError

__all__ = ["MAX_SCHEMA_BYTES", "Json", "child", "json_text", "read_schema"]

MAX_SCHEMA_BYTES = 1_000_000

Json: TypeAlias = Any
"""A parsed JSON value: dict, list, str, bool, None, int or Decimal."""


def read_schema(text: str) -> Json:
    """Parse a schema; numbers that are not integers become Decimal.

    Raises InvalidConstraintError for text that is no JSON, that names a member twice or that is
    neither an object nor a boolean, and LimitExceededError past MAX_SCHEMA_BYTES.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > MAX_SCHEMA_BYTES:
        raise LimitExceededError(
            f"the schema has {size} bytes, more than {MAX_SCHEMA_BYTES}",
            limit=MAX_SCHEMA_BYTES,
            field="constraint",
        )
    try:
        schema = json.loads(
            text,
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_duplicates,
        )
    except json.JSONDecodeError as error:
        raise InvalidConstraintError(
            f"the schema is not JSON: {error.msg} in line {error.lineno}, column {error.colno}",
            position=error.pos,
        ) from error
    except RecursionError as error:
        raise LimitExceededError(
            "the schema is nested too deeply to be read", limit=1000, field="constraint"
        ) from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise LimitExceededError(
            "the schema holds a number of more than 4300 digits", limit=4300, field="constraint"
        ) from error
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


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidConstraintError(f"the schema holds {name}, which is no JSON number")


def _object_without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidConstraintError(
            f"an object of the schema names the member {twice!r} twice",
            hint="keep one of the two",
        )
    return members
