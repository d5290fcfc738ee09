"""The text of a schema → JSON values, with exact numbers and without silent losses.

Reading only finds that something is wrong. Then ``_Scan`` scans the text once more, to report what
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
from guided.runtime.fuel import pause_if_due, with_pauses

__all__ = ["child", "json_nbytes", "json_text", "read_schema"]


def child(pointer: str, *tokens: str | int) -> str:
    """Return the pointer of something inside what ``pointer`` points at.

    Tokens are escaped here (RFC 6901, section 3), so callers pass names as they are.
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

    Raises InvalidConstraintError for text that is no JSON, that names a member twice, that contains
    half a surrogate pair or that is neither an object nor a boolean, and LimitExceededError for
    what is too large, nested too deeply, or a number of too many digits. ``base`` is the JSON
    pointer of the root, after the URI of a document.
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
        pause_if_due()
        _check_depth(schema)
        pause_if_due()
        _check_strings(schema, text)
        pause_if_due()
    except json.JSONDecodeError as error:
        raise syntax_fault(text, error, base) from error
    except (_FaultError, RecursionError) as fault:
        raise first_fault(text, base) or fault from fault
    if not isinstance(schema, dict | bool):
        raise InvalidConstraintError(
            f"a schema is an object or a boolean, not {json_text(schema)[:40]}", pointer=base
        )
    return schema


def json_text(value: Json) -> str:
    """Return the value in compact JSON, numbers without exponent.

    Recurses once for each level: the depth of schemas is bounded.
    """
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, list):
        return "[" + ",".join(json_text(item) for item in value) + "]"
    if isinstance(value, dict):
        members = [f"{json_text(key)}:{json_text(item)}" for key, item in value.items()]
        return "{" + ",".join(members) + "}"
    return json.dumps(value, ensure_ascii=False)


def json_nbytes(value: Json) -> int:
    """Return about how many bytes a value takes.

    For names, which often occur in several places, only the characters count.
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


class _FaultError(Exception):
    """Something may not stand in a schema; ``faults`` finds what and where."""


def _check_depth(schema: Json) -> None:
    """Raise _FaultError for values that nest deeper than MAX_DEPTH, level by level.

    Later walks may then recurse once for each level.
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
    raise _FaultError


def _check_strings(schema: Json, text: str) -> None:
    """Refuse strings that no UTF-8 text can contain.

    Half a pair may be written as an escape, which the text itself does not show: then what was read
    is checked, written out again without escapes.
    """
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


MAX_DEPTH: Final = 200
MAX_NUMBER_DIGITS: Final = 400
_DECODER = JSONDecoder()
_SYNTAX = "JSON has double quotes, no comments, and no comma before a closing bracket"
_TOKEN = re.compile(r'[\s,:]*(?:([\[{])|([\]}])|(")|([^\s,:\[\]{}"]+))')
_HALF_PAIR = re.compile(f"[{chr(0xD800)}-{chr(0xDFFF)}]")


def has_too_many_digits(number: str) -> bool:
    """Return whether a number of JSON, written without an exponent, would be too long.

    An exponent counts with its zeros, as exact arithmetic writes them out. One of six characters or
    more is always too much, and is not even read.
    """
    digits, _, exponent = number.lower().partition("e")
    shift = 0 if not exponent else abs(int(exponent)) if len(exponent) < 6 else MAX_NUMBER_DIGITS
    return len(digits) + shift > MAX_NUMBER_DIGITS


def syntax_fault(text: str, error: JSONDecodeError, base: str) -> GuidedError:
    """Return the error for text that is no JSON; ``base`` is the JSON pointer of its root.

    The scan runs up to there only for its ``pointer``; what it finds on the way is ignored.
    """
    scan = _Scan(text, base)
    for _ in scan.faults(error.pos):
        pass
    return InvalidConstraintError(
        f"the {'document' if base else 'schema'} is not JSON: {error.msg}{scan.place(error.pos)}",
        pointer=scan.pointer,
        position=error.pos,
        hint=_SYNTAX,
    )


def first_fault(text: str, base: str) -> GuidedError | None:
    """Return the error for JSON in which something may not stand; ``None`` for none."""
    return next(_Scan(text, base).faults(len(text)), None)


@dataclass(slots=True)
class _Container:
    """An object or array that the scan is in."""

    pointer: str
    is_object: bool
    names: set[str] = field(default_factory=set)
    """For an object, the names so far."""
    key: str | None = None
    """For an object, the name of the member being read; ``None`` between two members."""
    index: int = 0
    """For an array, the item being read."""


class _Scan:
    """Goes through the tokens of a text, and knows where in the document it is.

    To be used once, by ``faults``; ``stack`` has the containers around the place, the innermost
    last.
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
        if not self.stack:
            return self.base
        inner = self.stack[-1]
        if not inner.is_object:
            return child(inner.pointer, inner.index)
        return inner.pointer if inner.key is None else child(inner.pointer, inner.key)

    def place(self, position: int) -> str:
        """Return the place in the text, for people."""
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return f", line {line}, column {column}"

    def faults(self, end: int) -> Iterator[GuidedError]:
        """Yield what is wrong before ``end``, in the order of the text.

        Up to there the text has to be the beginning of JSON, so that brackets match. Once it is
        used up, ``pointer`` is where ``end`` is.
        """
        at = 0
        while (token := _TOKEN.match(self.text, at)) and token.end() <= end:
            opening, closing, quote, word = token.groups()
            start, at = token.start(token.lastindex or 0), token.end()
            if opening:
                if len(self.stack) == MAX_DEPTH:
                    yield self._too_deep(start)
                self.stack.append(_Container(self.pointer, opening == "{"))
            elif closing:
                self.stack.pop()
                self._value_done()
            elif quote:
                try:
                    string, at = _DECODER.raw_decode(self.text, start)
                except JSONDecodeError:
                    return
                yield from self._string(string, start)
            else:
                yield from self._word(word, start)
                self._value_done()

    def _value_done(self) -> None:
        if self.stack:
            self.stack[-1].key = None
            self.stack[-1].index += 1

    def _string(self, string: str, start: int) -> Iterator[GuidedError]:
        """Read a string at ``start``, a value or a name; yields what is wrong with it.

        A string is a name where an object has no ``key`` yet, and then ``key`` is set.
        """
        inner = self.stack[-1] if self.stack else None
        if _HALF_PAIR.search(string):
            yield InvalidConstraintError(
                f"the string {string[:40]!r} holds half of a surrogate pair, which no text can"
                f"{self.place(start)}",
                pointer=self.pointer,
                position=start,
                hint="write the whole character, or both halves as \\u escapes",
            )
        if inner is None or not inner.is_object or inner.key is not None:
            self._value_done()
            return
        if string in inner.names:
            yield InvalidConstraintError(
                f"the object names the member {string!r} twice{self.place(start)}",
                pointer=inner.pointer,
                position=start,
                hint="keep one of the two",
            )
        inner.names.add(string)
        inner.key = string

    def _word(self, word: str, start: int) -> Iterator[GuidedError]:
        """Yield what is wrong with a number or a name such as ``NaN`` at ``start``.

        Yields nothing for any other word: the text is the beginning of JSON.
        """
        if word in ("NaN", "Infinity", "-Infinity"):
            yield InvalidConstraintError(
                f"{word} is no JSON number{self.place(start)}",
                pointer=self.pointer,
                position=start,
                hint="leave the keyword out where there is no bound",
            )
        shown = word if len(word) <= 20 else f"{word[:20]}…"
        if word[-1].isdigit() and has_too_many_digits(word):
            yield LimitExceededError(
                f"the number {shown} has more digits than {MAX_NUMBER_DIGITS}{self.place(start)}",
                limit=MAX_NUMBER_DIGITS,
                field="constraint",
                pointer=self.pointer,
                hint="write one that is shorter or nearer to 0",
            )

    def _too_deep(self, start: int) -> GuidedError:
        """Return the error for a container that begins at ``start``, deeper than ``MAX_DEPTH``."""
        return LimitExceededError(
            f"the schema is nested deeper than {MAX_DEPTH}{self.place(start)}",
            limit=MAX_DEPTH,
            field="constraint",
            pointer=self.pointer,
            hint="move inner schemas to '$defs', and refer to them",
        )
