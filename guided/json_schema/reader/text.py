"""Parses the text of a schema, with exact numbers and without silent losses.

Parsing only finds that something is wrong. Then ``_Scan`` reads the text once more, to report what
is wrong and where.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from json import JSONDecodeError, JSONDecoder
from typing import Final, NoReturn

from guided.errors import GuidedError, InvalidConstraintError, LimitExceededError
from guided.json_schema.formulas.values import Json
from guided.runtime.work_budget import pause_if_due, with_pauses
from guided.spec.exact_json import write_exact

__all__ = ["child_pointer", "json_nbytes", "read_schema", "short_json"]

_SHORT: Final = 40
"""Characters of a value in an error message."""


def child_pointer(pointer: str, *tokens: str | int) -> str:
    """Return the JSON pointer of a value inside the one at ``pointer``.

    Escapes the tokens (RFC 6901, section 3), so callers pass names as they are.
    """
    for token in tokens:
        name = str(token)
        if "~" in name or "/" in name:
            name = name.replace("~", "~0").replace("/", "~1")
        pointer = f"{pointer}/{name}"
    return pointer


MAX_SCHEMA_BYTES: Final = 1_000_000


def read_schema(text: str, base: str = "") -> Json:
    """Parse a schema; numbers that are not integers become Decimal.

    Raises InvalidConstraintError for text that is no JSON, for repeated names of members, for
    unpaired surrogates and for a root that is neither an object nor a boolean; LimitExceededError
    for a text that is too long, nested too deeply, or has a number of too many digits. ``base`` is
    the JSON pointer of the root: empty for the schema, for a document its URI with "#".
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
            parse_int=_parse_integer,
            parse_float=_parse_decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_duplicates,
        )
        pause_if_due()
        _check_depth(schema)
        pause_if_due()
        _check_strings(schema, text)
        pause_if_due()
    except json.JSONDecodeError as error:
        raise syntax_error(text, error, base) from error
    except (_RejectedTextError, RecursionError) as rejected:
        raise first_error(text, base) or rejected from rejected
    if not isinstance(schema, dict | bool):
        raise InvalidConstraintError(
            f"a schema is an object or a boolean, not {short_json(schema)}", pointer=base
        )
    return schema


def short_json(value: Json) -> str:
    """Return the beginning of a value in compact JSON, for error messages."""
    return write_exact(value)[:_SHORT]


def json_nbytes(value: Json) -> int:
    """Return about how many bytes a value takes in memory.

    Of names, which are usually shared, only the characters count.
    """
    size, values = 0, [value]
    for each in with_pauses(values):  # which grow meanwhile
        size += sys.getsizeof(each)
        if isinstance(each, dict):
            size += sum(map(len, each))
            values += each.values()
        elif isinstance(each, list):
            values += each
    return size


class _RejectedTextError(Exception):
    """Text that no schema may have; ``_Scan`` then makes the error that says where.

    So ``_Scan`` has to find all that raises this: if it finds nothing, callers get this error.
    """


def _check_depth(schema: Json) -> None:
    """Raise _RejectedTextError for values that nest deeper than MAX_DEPTH.

    Later code may then recurse once for each level.
    """
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
    raise _RejectedTextError


def _check_strings(schema: Json, text: str) -> None:
    """Raise _RejectedTextError for strings with unpaired surrogates, which UTF-8 cannot encode.

    Escapes may hide a surrogate; only then the parsed strings are checked instead of the text.
    """
    decoded = text
    if _ESCAPED_SURROGATE.search(text):
        decoded = json.dumps(schema, ensure_ascii=False, default=str)
    try:
        decoded.encode()
    except UnicodeEncodeError as error:
        raise _RejectedTextError from error


_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _parse_integer(text: str) -> int:
    if len(text) > MAX_NUMBER_DIGITS:
        raise _RejectedTextError
    return int(text)


def _parse_decimal(text: str) -> Decimal:
    if has_too_many_digits(text):
        raise _RejectedTextError
    return Decimal(text)


def _refuse_constant(_: str) -> NoReturn:
    raise _RejectedTextError


def _object_without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _RejectedTextError
    return members


MAX_DEPTH: Final = 200
MAX_NUMBER_DIGITS: Final = 400
_TOKENS_PER_CHECK: Final = 500
"""Tokens that are read again between two checks whether it is time to pause."""
_DECODER = JSONDecoder()
_SYNTAX = "JSON has double quotes, no comments, and no comma before a closing bracket"
_NO_MARK = "save it as UTF-8 without a byte order mark"
_TOKEN = re.compile(r'[\s,:]*(?:([\[{])|([\]}])|(")|([^\s,:\[\]{}"]+))')
_SURROGATE = re.compile(f"[{chr(0xD800)}-{chr(0xDFFF)}]")


def has_too_many_digits(number: str) -> bool:
    """Return whether a number has too many digits when it is written without an exponent.

    Signs and the point count too, so this may be true of a number that just fits, but is never
    false of one that does not. An exponent of six characters or more is always too large, and is
    not even parsed.
    """
    digits, _, exponent = number.lower().partition("e")
    shift = 0 if not exponent else abs(int(exponent)) if len(exponent) < 6 else MAX_NUMBER_DIGITS
    return len(digits) + shift > MAX_NUMBER_DIGITS


def syntax_error(text: str, error: JSONDecodeError, base: str) -> GuidedError:
    """Return the error for text that is no JSON; ``base`` is the JSON pointer of its root."""
    scan = _Scan(text, base)
    for _ in scan.find_errors(error.pos):
        pass  # only to move the scan, whose ``pointer`` is needed
    subject, where = "document" if base else "schema", scan.line_and_column(error.pos)
    return InvalidConstraintError(
        f"the {subject} is not JSON: {error.msg}{where}",
        pointer=scan.pointer,
        position=error.pos,
        hint=_NO_MARK if text.startswith("\ufeff") else _SYNTAX,
    )


def first_error(text: str, base: str) -> GuidedError | None:
    """Return the first error in valid JSON that no schema may have; ``None`` if there is none."""
    return next(_Scan(text, base).find_errors(len(text)), None)


@dataclass(slots=True)
class _Container:
    """An object or array around the position of the scan."""

    is_object: bool
    names: set[str] = field(default_factory=set)
    """For an object, the names of the members so far."""
    key: str | None = None
    """For an object, the name of the member being read; ``None`` between two members."""
    index: int = 0
    """For an array, the item being read."""


class _Scan:
    """Reads the tokens of a text, and tracks the JSON pointer of its position.

    To be used once, by ``find_errors``. ``stack`` has the containers around the position, the
    innermost last.
    """

    def __init__(self, text: str, base: str) -> None:
        self.text = text
        self.base = base
        self.stack: list[_Container] = []

    @property
    def pointer(self) -> str:
        """The JSON pointer of the value being read.

        Between two members it is that of the object.
        """
        return self._pointer_in(self.stack)

    def _pointer_in(self, containers: list[_Container]) -> str:
        """Return the JSON pointer of what is being read in the last of some containers.

        Only errors have one: a name around very many containers may be very long.
        """
        tokens = [each.key if each.is_object else each.index for each in containers]
        return child_pointer(self.base, *(token for token in tokens if token is not None))

    def line_and_column(self, position: int) -> str:
        """Return the line and the column of a position, as the end of a message."""
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return f", line {line}, column {column}"

    def find_errors(self, end: int) -> Iterator[GuidedError]:
        """Yield the errors before ``end``, in the order of the text.

        Up to there the text has to be a prefix of JSON, so that brackets match. When the iterator
        is exhausted, ``pointer`` is that of the value at ``end``.
        """
        position, left = 0, 0
        while (token := _TOKEN.match(self.text, position)) and token.end() <= end:
            left -= 1
            if left < 0:
                pause_if_due()
                left = _TOKENS_PER_CHECK
            opening, closing, quote, word = token.groups()
            start, position = token.start(token.lastindex or 0), token.end()
            if opening:
                if len(self.stack) == MAX_DEPTH:
                    yield self._depth_error(start)
                self.stack.append(_Container(opening == "{"))
            elif closing:
                self.stack.pop()
                self._end_value()
            elif quote:
                try:
                    string, position = _DECODER.raw_decode(self.text, start)
                except JSONDecodeError:
                    return
                yield from self._read_string(string, start)
            else:
                yield from self._read_word(word, start)
                self._end_value()

    def _end_value(self) -> None:
        """Move past a value: the next one is another member or item."""
        if self.stack:
            self.stack[-1].key = None
            self.stack[-1].index += 1

    def _read_string(self, string: str, start: int) -> Iterator[GuidedError]:
        """Read a string at ``start``, a value or the name of a member; yields the errors in it.

        It is a name if the innermost container is an object without a ``key``, which is then set.
        ``string`` is its value, without quotes and escapes.
        """
        inner = self.stack[-1] if self.stack else None
        if _SURROGATE.search(string):
            yield InvalidConstraintError(
                f"the string {string[:40]!r} holds half of a surrogate pair, which no text can"
                f"{self.line_and_column(start)}",
                pointer=self.pointer,
                position=start,
                hint="write the whole character, or both halves as \\u escapes",
            )
        if inner is None or not inner.is_object or inner.key is not None:
            self._end_value()
            return
        if string in inner.names:
            yield InvalidConstraintError(
                f"the object names the member {string[:80]!r} twice{self.line_and_column(start)}",
                pointer=self._pointer_in(self.stack[:-1]),
                position=start,
                hint="keep one of the two",
            )
        inner.names.add(string)
        inner.key = string

    def _read_word(self, word: str, start: int) -> Iterator[GuidedError]:
        """Yield the error of a number with too many digits, or of a constant such as ``NaN``.

        ``word`` is neither a string nor a bracket, and stands at ``start``.
        """
        if word in ("NaN", "Infinity", "-Infinity"):
            yield InvalidConstraintError(
                f"{word} is no JSON number{self.line_and_column(start)}",
                pointer=self.pointer,
                position=start,
                hint="leave the keyword out where there is no bound",
            )
        shown = word if len(word) <= 20 else f"{word[:20]}…"
        if word[-1].isdigit() and has_too_many_digits(word):
            yield LimitExceededError(
                f"the number {shown} has more digits than {MAX_NUMBER_DIGITS}"
                f"{self.line_and_column(start)}",
                limit=MAX_NUMBER_DIGITS,
                field="constraint",
                pointer=self.pointer,
                hint="write one that is shorter or nearer to 0",
            )

    def _depth_error(self, start: int) -> GuidedError:
        """Return the error for a container that is nested deeper than ``MAX_DEPTH``."""
        return LimitExceededError(
            f"the schema is nested deeper than {MAX_DEPTH}{self.line_and_column(start)}",
            limit=MAX_DEPTH,
            field="constraint",
            pointer=self.pointer,
            hint="move inner schemas to '$defs', and refer to them",
        )
