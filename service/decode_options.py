"""From the protobuf message of JSON options to the options, unset fields to their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from guided.errors import RequestError
from guided.spec import FormatMode, JsonOptions, KeyOrder, RegexDialect, Spelling
from guided.v1 import generation_pb2 as pb

__all__ = [
    "FORMAT_MODES",
    "KEY_ORDERS",
    "REGEX_DIALECTS",
    "SPELLINGS",
    "decode_json_options",
    "decode_regex_dialect",
]

T = TypeVar("T")

_DEFAULT = JsonOptions()

KEY_ORDERS: Mapping[int, KeyOrder] = {
    pb.KEY_ORDER_UNSPECIFIED: _DEFAULT.key_order,
    pb.KEY_ORDER_SCHEMA: KeyOrder.SCHEMA,
    pb.KEY_ORDER_ANY: KeyOrder.ANY,
}
FORMAT_MODES: Mapping[int, FormatMode] = {
    pb.FORMAT_MODE_UNSPECIFIED: _DEFAULT.format,
    pb.FORMAT_MODE_ASSERT: FormatMode.ASSERT,
    pb.FORMAT_MODE_ANNOTATE: FormatMode.ANNOTATE,
}
SPELLINGS: Mapping[int, Spelling] = {
    pb.SPELLING_UNSPECIFIED: _DEFAULT.spelling,
    pb.SPELLING_CANONICAL: Spelling.CANONICAL,
    pb.SPELLING_ANY: Spelling.ANY,
}


REGEX_DIALECTS: Mapping[int, RegexDialect] = {
    pb.REGEX_DIALECT_UNSPECIFIED: RegexDialect.PYTHON,
    pb.REGEX_DIALECT_PYTHON: RegexDialect.PYTHON,
    pb.REGEX_DIALECT_ECMA: RegexDialect.ECMA,
}


def decode_regex_dialect(message: pb.RegexPattern) -> RegexDialect:
    """The dialect; one that this server does not know raises ``RequestError``."""
    return _known(REGEX_DIALECTS, pb.RegexDialect, message.dialect, "dialect", "regex")


def decode_json_options(message: pb.JsonOptions) -> JsonOptions:
    """The options; a value that this server does not know raises ``RequestError``."""
    return JsonOptions(
        whitespace=_bound(message, "whitespace"),
        key_order=_known(KEY_ORDERS, pb.KeyOrder, message.key_order, "key_order"),
        format=_known(FORMAT_MODES, pb.FormatMode, message.format, "format"),
        spelling=_known(SPELLINGS, pb.Spelling, message.spelling, "spelling"),
        max_string_length=_bound(message, "max_string_length"),
        max_number_digits=_bound(message, "max_number_digits"),
    )


def _bound(message: pb.JsonOptions, name: Any) -> int | None:
    if not message.HasField(name):
        default: int | None = getattr(_DEFAULT, name)
        return default
    bound: pb.Bound = getattr(message, name)
    return bound.at_most if bound.HasField("at_most") else None


def _known(
    values: Mapping[int, T], kind: Any, number: int, name: str, within: str = "json_options"
) -> T:
    if number not in values:
        known = ", ".join(kind.Name(one) for one in values)
        raise RequestError(f"{name} {number} is none of {known}", field=f"{within}.{name}")
    return values[number]
