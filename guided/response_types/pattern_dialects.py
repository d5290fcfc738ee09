"""What the engines behind pydantic's patterns take for a word, a digit, white space, a case.

A set is what is surely in it and what may be: an engine may know a later version of Unicode than
the one that reads the pattern here, and then characters that are unassigned here (``\\p{Cn}``) are
anything there. What is allowed needs to be sure, what is excluded to be complete.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from re import _casefix  # type: ignore[attr-defined]
from typing import Final

__all__ = ["ASCII", "PYTHON", "RUST", "Dialect", "posix_class", "property_name"]

_UNKNOWN: Final = r"\p{Cn}"
_SPACES: Final = r"\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# UTS 18, annex C: alphabetic (marks, letter numbers and the circled letters included), decimal
# digits, connectors, joiners.
_RUST_WORD: Final = (
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\u200c\u200d\u24b6-\u24e9"
    r"\u{1f130}-\u{1f149}\u{1f150}-\u{1f169}\u{1f170}-\u{1f189}"
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """An engine; sets are given as they stand inside the brackets of ECMA-262."""

    name: str
    sure: Mapping[str, str]
    """Of ``d``, ``w`` and ``s`` the characters that are surely in it."""
    maybe: Mapping[str, str]
    """Those and all that may be in it."""
    fold: Callable[[int], int]
    """One of the code points that are the same where case is ignored."""
    unknown: str = ""
    """Characters whose case is not known."""

    def same(self, code_point: int) -> tuple[int, ...]:
        """The other code points that are the same where case is ignored."""
        return _same(self.fold).get(code_point, ())

    def same_as_any(self, low: int, high: int) -> list[int]:
        """Those outside of a range that are the same as one inside, in order."""
        found = {
            other
            for code_point, others in _same(self.fold).items()
            if low <= code_point <= high
            for other in others
        }
        return sorted(other for other in found if not low <= other <= high)


def _simple_fold(code_point: int) -> int:
    """Simple case folding (Unicode, section 3.13), from the full one of Python."""
    character = chr(code_point)
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return ord(folded)
    return code_point


def _lower(code_point: int) -> int:
    """As Python's engine compares: simple lower case, and a table of further likenesses."""
    lower = ord(chr(code_point).lower()[0])
    alike: tuple[int, ...] = _casefix._EXTRA_CASES.get(lower, ())
    return min(lower, *alike) if alike else lower


def _ascii_lower(code_point: int) -> int:
    return code_point + 32 if 65 <= code_point <= 90 else code_point


_LAST_CASED: Final = 0x1E943


@functools.cache
def _same(fold: Callable[[int], int]) -> Mapping[int, tuple[int, ...]]:
    classes: dict[int, list[int]] = {}
    for code_point in range(_LAST_CASED + 1):
        classes.setdefault(fold(code_point), []).append(code_point)
    return {
        code_point: tuple(other for other in members if other != code_point)
        for members in classes.values()
        if len(members) > 1
        for code_point in members
    }


# The digits of other scripts are digits to both engines; programs that read them are few.
_DIGITS: Final = "0-9"
_PYTHON_SETS: Final = {"w": r"\p{L}\p{N}_", "s": rf"{_SPACES}\u001c-\u001f"}
_ASCII_SETS: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t-\r "}

RUST: Final = Dialect(
    "rust",
    {"d": _DIGITS, "w": _RUST_WORD, "s": _SPACES},
    {"d": r"\p{Nd}" + _UNKNOWN, "w": _RUST_WORD + _UNKNOWN, "s": _SPACES},
    _simple_fold,
    _UNKNOWN,
)
PYTHON: Final = Dialect(
    "python", {"d": _DIGITS, **_PYTHON_SETS}, {"d": r"\p{Nd}", **_PYTHON_SETS}, _lower
)
ASCII: Final = Dialect("python", _ASCII_SETS, _ASCII_SETS, _ascii_lower)
"""Python's, with ``re.ASCII``."""


_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\u0000-\u007f",
    "blank": r"\t ",
    "cntrl": r"\u0000-\u001f\u007f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\u005b-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


def posix_class(name: str) -> str | None:
    """The characters of ``[:name:]``."""
    return _POSIX.get(name)


_CATEGORIES: Final = re.findall(
    r"\w+",
    """
    L Letter LC Cased_Letter Lu Uppercase_Letter Ll Lowercase_Letter Lt Titlecase_Letter
    Lm Modifier_Letter Lo Other_Letter M Mark Mn Nonspacing_Mark Mc Spacing_Mark Me Enclosing_Mark
    N Number Nd Decimal_Number Nl Letter_Number No Other_Number P Punctuation
    Pc Connector_Punctuation Pd Dash_Punctuation Ps Open_Punctuation Pe Close_Punctuation
    Pi Initial_Punctuation Pf Final_Punctuation Po Other_Punctuation S Symbol Sm Math_Symbol
    Sc Currency_Symbol Sk Modifier_Symbol So Other_Symbol Z Separator Zs Space_Separator
    Zl Line_Separator Zp Paragraph_Separator Cc Control Cf Format Co Private_Use
    """,
)
_BINARY: Final = re.findall(
    r"\w+",
    """
    ASCII Alphabetic Any Assigned Cased Dash Emoji Hex_Digit ID_Continue ID_Start Ideographic
    Lowercase Math Uppercase White_Space XID_Continue XID_Start
    """,
)
_PROPERTIES: Final = {name.replace("_", "").lower(): name for name in (*_CATEGORIES, *_BINARY)}


def property_name(text: str) -> str:
    """The name in ECMA-262 of a property that Rust names, where letters of any case will do.

    ``l`` -> ``L``, ``greek`` -> ``Script=Greek``, ``sc=Old_Italic`` -> ``Script=Old_Italic``
    """
    kind, equals, value = text.replace(":", "=").partition("=")
    if equals:
        long = {"sc": "Script", "scx": "Script_Extensions", "gc": "General_Category"}
        kind = long.get(kind.lower(), kind)
        return f"{kind}={_titled(value)}" if kind.startswith("Script") else property_name(value)
    loose = re.sub(r"[-_ ]", "", text).lower()
    return _PROPERTIES.get(loose) or f"Script={_titled(text)}"


def _titled(name: str) -> str:
    return "_".join(word[:1].upper() + word[1:] for word in re.split(r"[-_ ]", name))
