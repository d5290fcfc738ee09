"""The text of an EBNF grammar cut into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from guided.errors import ConstraintError, InvalidConstraintError, UnsupportedFeatureError
from guided.runtime.fuel import spend
from guided.spec.source_position import Place

__all__ = ["Token", "refused", "tokens_of"]

_TOKEN: Final = re.compile(
    r"""
    (?P<blank>(?:[ \t\r\n]|\#[^\r\n]*)+)
    | (?P<macro>(?:TagDispatch|TokenTagDispatch|Token|ExcludeToken|Regex)[ \t]*\()
    | (?P<dotted>[\w-]+\.[\w-][\w.-]*)
    | (?P<name>[\w-]+)
    | (?P<defined>::=)
    | (?P<literal>"(?:\\.|[^"\\])*")
    | (?P<class>\[(?:\\.|[^]\\])*\])
    | (?P<bounds>\{[ \t]*\d+[ \t]*(?:,[ \t]*\d*[ \t]*)?\})
    | (?P<ahead>\(=)
    | (?P<token>!?<[^<>\s]+>)
    | (?P<sign>[|()*+?.])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_UNFINISHED: Final = {
    '"': 'the literal has no closing "',
    "[": "the class has no closing ]",
    "{": "these are no bounds, which are {2}, {2,} or {2,3}",
    ":": "here a rule would be defined by ::=",
}
_UNSUPPORTED: Final = {
    "macro": (
        "a macro of xgrammar is not supported",
        "write the texts that it stands for as rules",
    ),
    "dotted": (
        "a name with a dot is not supported",
        "rename the rule; a dot that stands for any character wants a space before it",
    ),
    "token": (
        "a token of the vocabulary instead of text is not supported",
        "write the text that it stands for; special tokens are no part of an answer",
    ),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; ``kind`` is a sign itself, or the name of a group above, or "end"."""

    kind: str
    text: str
    position: int


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens in order, the last of kind "end"; blanks and comments are left out.

    Raises InvalidConstraintError or UnsupportedFeatureError, with the place.
    """
    position = 0
    while position < len(text):
        spend(5)
        found = _TOKEN.match(text, position)
        if found is None:
            sign = text[position]
            what = _UNFINISHED.get(sign, f"{sign!r} means nothing here")
            raise refused(InvalidConstraintError, text, position, what)
        kind = str(found.lastgroup)
        if kind in _UNSUPPORTED:
            what, hint = _UNSUPPORTED[kind]
            raise refused(UnsupportedFeatureError, text, position, what, hint)
        if kind != "blank":
            yield Token(found[0] if kind == "sign" else kind, found[0], position)
        position = found.end()
    yield Token("end", "the end", position)


def refused(
    error: type[ConstraintError], text: str, position: int, what: str, hint: str | None = None
) -> ConstraintError:
    """The error with line, column and a caret."""
    return error(Place(text, position).message(what), position=position, hint=hint)
