"""Sets of characters in patterns of other dialects, and those of the engines that pydantic uses.

A set is an expression of ECMA-262 that matches one character. ECMA-262 has neither complements nor
intersections inside brackets; what brackets cannot express is written next to them, with
look-ahead: ``[a-z&&[^x]]`` -> ``(?:(?=[a-z])[^x])``.

A set has the characters that are surely in it and those that may be: the engine may have another
version of Unicode than the reader of the pattern. If the engine's is later, characters that are
unassigned here (``\\p{Cn}``) may be anything there; if it is earlier, characters that are new here
are unassigned there. What is allowed must be sure, and what is excluded must include all that may
be.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from re import _casefix  # type: ignore[attr-defined]
from typing import Final

__all__ = [
    "ASCII",
    "PYTHON",
    "RUST",
    "UNASSIGNED_IN_PYTHON",
    "CharacterSet",
    "Dialect",
    "escape_in_brackets",
    "posix_class",
    "property_name",
    "property_set",
]

_NOTHING = r"[^\s\S]"
_ANYTHING = r"[\s\S]"
_ESCAPED_IN_CLASS = frozenset("\\]^-")
_SPELLED_IN_CLASS = frozenset("[&~")


def escape_in_brackets(code_point: int) -> str:
    """Return a character for use in brackets; operators of other dialects become numbers."""
    character = chr(code_point)
    if character in _ESCAPED_IN_CLASS:
        return "\\" + character
    if code_point < 0x20 or character in _SPELLED_IN_CLASS or 0x7F <= code_point < 0xA0:
        return f"\\u{code_point:04x}"
    return character


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """The characters surely in a set and those that may be in it.

    Each is the content of brackets, and expressions of one character that are alternatives to it.
    """

    sure: str = ""
    maybe: str = ""
    sure_units: tuple[str, ...] = ()
    maybe_units: tuple[str, ...] = ()

    @classmethod
    def of(cls, content: str) -> CharacterSet:
        """Return the set of the content of ECMA-262 brackets."""
        return cls(content, content)

    def unit(self, *, sure: bool) -> str:
        """Return an expression of one character surely in the set, or else possibly in it."""
        content, units = (self.sure, self.sure_units) if sure else (self.maybe, self.maybe_units)
        options = [f"[{content}]", *units] if content else [*units]
        if not options:
            return _NOTHING
        return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"

    def __or__(self, other: CharacterSet) -> CharacterSet:
        if other == ~self:
            return CharacterSet(sure_units=(_ANYTHING,), maybe_units=(_ANYTHING,))
        return CharacterSet(
            self.sure + other.sure,
            self.maybe + other.maybe,
            self.sure_units + other.sure_units,
            self.maybe_units + other.maybe_units,
        )

    def __invert__(self) -> CharacterSet:
        return CharacterSet(
            sure_units=(_complement(self.maybe, self.unit(sure=False), self.maybe_units),),
            maybe_units=(_complement(self.sure, self.unit(sure=True), self.sure_units),),
        )

    def __and__(self, other: CharacterSet) -> CharacterSet:
        return _set_of_units(
            f"(?:(?={self.unit(sure=True)}){other.unit(sure=True)})",
            f"(?:(?={self.unit(sure=False)}){other.unit(sure=False)})",
        )

    def __sub__(self, other: CharacterSet) -> CharacterSet:
        return _set_of_units(
            f"(?:(?!{other.unit(sure=False)}){self.unit(sure=True)})",
            f"(?:(?!{other.unit(sure=True)}){self.unit(sure=False)})",
        )


def _complement(content: str, unit: str, units: tuple[str, ...]) -> str:
    if units:
        return f"(?:(?!{unit}){_ANYTHING})"
    return f"[^{content}]" if content else _ANYTHING


def _set_of_units(sure: str, maybe: str) -> CharacterSet:
    return CharacterSet(sure_units=(sure,), maybe_units=(maybe,))


# Engines

_UNASSIGNED: Final = r"\p{Cn}"
UNASSIGNED_IN_PYTHON: Final = (
    r"\u088f\u0897\u0c5c\u0cdc\u0cf3\u0ece\u1acf-\u1aeb\u1b4e\u1b4f\u1b7f\u1c89\u1c8a\u20c1"
    r"\u2427-\u2429\u2b96\u2ffc-\u2fff\u31e4-\u31ef\ua7cb-\ua7cf\ua7d2\ua7d4\ua7da-\ua7f1\ufbc3-\ufbd2\ufd90\ufd91\ufdc8-\ufdcf"
    r"\u{105c0}-\u{1bfff}\u{1cc00}-\u{1d3ff}\u{1df00}-\u{1e6ff}\u{1f6d8}-\u{1fbff}"
    r"\u{2b739}-\u{2b73f}\u{2cea2}-\u{2cead}\u{2ebf0}-\u{2ee5d}\u{31350}-\u{33479}"
)
"""Characters added to Unicode after version 14, which Python 3.11 has; beyond the first plane in
blocks."""
_MAYBE_UNASSIGNED: Final = _UNASSIGNED + UNASSIGNED_IN_PYTHON
_SPACES: Final = r"\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# UTS 18, annex C: alphabetic (marks, letter numbers and the circled letters included), decimal
# digits, connectors, joiners.
_RUST_WORD: Final = (
    r"\p{Pc}\u200c\u200d\u24b6-\u24e9"
    r"\u{1f130}-\u{1f149}\u{1f150}-\u{1f169}\u{1f170}-\u{1f189}"
)


def property_set(names: Iterable[str], others: str = "") -> CharacterSet:
    """Return the characters of properties and others; properties may have more in newer engines."""
    named = [rf"\p{{{name}}}" for name in names]
    units = tuple(rf"[^\P{{{name}}}{UNASSIGNED_IN_PYTHON}]" for name in names)
    return CharacterSet(others, "".join(named) + others + _MAYBE_UNASSIGNED, units)


@dataclass(frozen=True, slots=True)
class Dialect:
    """An engine of patterns, with its digits, words, white space and case folding."""

    name: str
    sets: Mapping[str, CharacterSet]
    """The sets of ``d``, ``w`` and ``s``."""
    fold: Callable[[int], int]
    """Returns the same code point for all that are equal if case is ignored."""
    unknown: str = ""
    """Characters whose case is unknown, as they may be unassigned here."""

    def case_variants(self, code_point: int) -> tuple[int, ...]:
        """Return the other code points that are equal if case is ignored."""
        return _case_variants(self.fold).get(code_point, ())

    def case_variants_of_range(self, low: int, high: int) -> list[int]:
        """Return the code points outside a range that equal one inside it, in order."""
        found = {
            other
            for code_point, others in _case_variants(self.fold).items()
            if low <= code_point <= high
            for other in others
        }
        return sorted(other for other in found if not low <= other <= high)


def _simple_fold(code_point: int) -> int:
    """Apply simple case folding (Unicode, section 3.13), derived from Python's full folding."""
    character = chr(code_point)
    for folded in (character.casefold(), character.lower()):
        if len(folded) == 1:
            return ord(folded)
    return code_point


def _lower(code_point: int) -> int:
    """Return the lower case by which Python's engine compares, with its table of further equals."""
    lower = ord(chr(code_point).lower()[0])
    equals: tuple[int, ...] = _casefix._EXTRA_CASES.get(lower, ())
    return min(lower, *equals) if equals else lower


def _ascii_lower(code_point: int) -> int:
    return code_point + 32 if 65 <= code_point <= 90 else code_point


_LAST_CASED: Final = 0x1E943


@functools.cache
def _case_variants(fold: Callable[[int], int]) -> Mapping[int, tuple[int, ...]]:
    classes: dict[int, list[int]] = {}
    for code_point in range(_LAST_CASED + 1):
        classes.setdefault(fold(code_point), []).append(code_point)
    return {
        code_point: tuple(other for other in members if other != code_point)
        for members in classes.values()
        if len(members) > 1
        for code_point in members
    }


# Digits of other scripts are digits in both engines, but few programs can read them.
_DIGITS: Final = "0-9"
_ANY_DIGITS: Final = CharacterSet(_DIGITS, r"\p{Nd}" + _MAYBE_UNASSIGNED)

RUST: Final = Dialect(
    "rust",
    {
        "d": _ANY_DIGITS,
        "w": property_set(("L", "M", "Nd", "Nl"), _RUST_WORD),
        "s": CharacterSet.of(_SPACES),
    },
    _simple_fold,
    _MAYBE_UNASSIGNED,
)
PYTHON: Final = Dialect(
    "python",
    {
        "d": _ANY_DIGITS,
        "w": property_set(("L", "N"), "_"),
        "s": CharacterSet.of(rf"{_SPACES}\u001c-\u001f"),
    },
    _lower,
)
ASCII: Final = Dialect(
    "python",
    {
        "d": CharacterSet.of("0-9"),
        "w": CharacterSet.of("0-9A-Za-z_"),
        "s": CharacterSet.of(r"\t-\r "),
    },
    _ascii_lower,
)
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
    """Return the characters of ``[:name:]``."""
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
    """Return the ECMA-262 name of a property from Rust's name, in which case does not matter.

    ``l`` -> ``L``, ``greek`` -> ``Script=Greek``, ``sc=Old_Italic`` -> ``Script=Old_Italic``
    """
    kind, equals, value = text.replace(":", "=").partition("=")
    if equals:
        long = {"sc": "Script", "scx": "Script_Extensions", "gc": "General_Category"}
        kind = long.get(kind.lower(), kind)
        return f"{kind}={_title_case(value)}" if kind.startswith("Script") else property_name(value)
    loose = re.sub(r"[-_ ]", "", text).lower()
    return _PROPERTIES.get(loose) or f"Script={_title_case(text)}"


def _title_case(name: str) -> str:
    return "_".join(word[:1].upper() + word[1:] for word in re.split(r"[-_ ]", name))
