"""Reads constraints that callers pass where a type may stand as well."""

from __future__ import annotations

import re
from typing import Final

from guided.errors import RequestError
from guided.spec import Lark, Regex, Structure

__all__ = ["pattern_of", "written_grammar"]

_START_RULE: Final = re.compile(r"^[?!]?start\b[^:\n]*:", re.MULTILINE)
_FLAGS: Final = {
    "a": re.ASCII,
    "i": re.IGNORECASE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "x": re.VERBOSE,
}


def written_grammar(subject: object) -> Structure | None:
    """Return the constraint that a response model is; ``None`` if it must be a type.

    It may be a constraint, a pattern that the whole answer must match, or a grammar in Lark's
    format.
    """
    match subject:
        case re.Pattern():
            return pattern_of(subject)
        case Structure():
            return subject
        case str() if _START_RULE.search(subject):
            return Lark(subject)
    return None


def pattern_of(compiled: re.Pattern[str]) -> Regex:
    """Return the constraint of a compiled pattern, with its flags written into it."""
    if not isinstance(compiled.pattern, str):
        raise RequestError(
            f"grammar {compiled!r} is a pattern of bytes", field="grammar", hint="compile a string"
        )
    letters = "".join(letter for letter, flag in _FLAGS.items() if compiled.flags & flag)
    return Regex(f"(?{letters}){compiled.pattern}" if letters else compiled.pattern)
