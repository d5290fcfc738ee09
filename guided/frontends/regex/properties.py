"""The properties of Unicode that ``\\p`` names (ECMA-262, section 22.2.1, tables 66 to 69)."""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Callable

from guided.automata.codepoints import ANY, CodePoints

__all__ = ["unicode_property"]

_LONG_NAMES = {
    "Cased_Letter": "LC",
    "Close_Punctuation": "Pe",
    "Combining_Mark": "M",
    "Connector_Punctuation": "Pc",
    "Control": "Cc",
    "cntrl": "Cc",
    "Currency_Symbol": "Sc",
    "Dash_Punctuation": "Pd",
    "Decimal_Number": "Nd",
    "digit": "Nd",
    "Enclosing_Mark": "Me",
    "Final_Punctuation": "Pf",
    "Format": "Cf",
    "Initial_Punctuation": "Pi",
    "Letter": "L",
    "Letter_Number": "Nl",
    "Line_Separator": "Zl",
    "Lowercase_Letter": "Ll",
    "Mark": "M",
    "Math_Symbol": "Sm",
    "Modifier_Letter": "Lm",
    "Modifier_Symbol": "Sk",
    "Nonspacing_Mark": "Mn",
    "Number": "N",
    "Open_Punctuation": "Ps",
    "Other": "C",
    "Other_Letter": "Lo",
    "Other_Number": "No",
    "Other_Punctuation": "Po",
    "Other_Symbol": "So",
    "Paragraph_Separator": "Zp",
    "Private_Use": "Co",
    "Punctuation": "P",
    "punct": "P",
    "Separator": "Z",
    "Space_Separator": "Zs",
    "Spacing_Mark": "Mc",
    "Surrogate": "Cs",
    "Symbol": "S",
    "Titlecase_Letter": "Lt",
    "Unassigned": "Cn",
    "Uppercase_Letter": "Lu",
}

# Those of the binary properties that the standard library knows exactly.
_TESTS: dict[str, Callable[[str], bool]] = {
    "Lowercase": str.islower,
    "Uppercase": str.isupper,
    "Bidi_Mirrored": lambda character: bool(unicodedata.mirrored(character)),
    "XID_Start": lambda character: character.isidentifier() and character != "_",
    "XID_Continue": lambda character: ("a" + character).isidentifier(),
}
_SHORT_NAMES = {
    "AHex": "ASCII_Hex_Digit",
    "Bidi_M": "Bidi_Mirrored",
    "Hex": "Hex_Digit",
    "Lower": "Lowercase",
    "NChar": "Noncharacter_Code_Point",
    "RI": "Regional_Indicator",
    "Upper": "Uppercase",
    "XIDC": "XID_Continue",
    "XIDS": "XID_Start",
    "space": "White_Space",
}
# Properties that are promised never to change, or as good as.
_FIXED = {
    "ASCII": [(0x00, 0x7F)],
    "ASCII_Hex_Digit": [(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)],
    "Hex_Digit": [
        *((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
        *((0xFF10, 0xFF19), (0xFF21, 0xFF26), (0xFF41, 0xFF46)),
    ],
    "Noncharacter_Code_Point": [
        (0xFDD0, 0xFDEF),
        *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000)),
    ],
    "Regional_Indicator": [(0x1F1E6, 0x1F1FF)],
    "White_Space": [
        *((0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680)),
        *((0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F)),
        (0x3000, 0x3000),
    ],
}


@functools.cache
def unicode_property(text: str) -> CodePoints | None:
    """The code points that ``text`` names, as it stands in ``\\p{…}``; None for one not known.

    The data is that of the running Python (``unicodedata.unidata_version``).
    """
    name, equals, value = text.partition("=")
    if equals:
        return _category(value) if name in ("gc", "General_Category") else None
    name = _SHORT_NAMES.get(name, name)
    if name == "Any":
        return ANY
    if name == "Assigned":
        return ~_categories()["Cn"]
    if name in _FIXED:
        return CodePoints.of(_FIXED[name])
    if name in _TESTS:
        test = _TESTS[name]
        return CodePoints.of((c, c) for c in range(sys.maxunicode + 1) if test(chr(c)))
    return _category(name)


def _category(name: str) -> CodePoints | None:
    return _categories().get(_LONG_NAMES.get(name, name))


@functools.cache
def _categories() -> dict[str, CodePoints]:
    ranges: dict[str, list[tuple[int, int]]] = {}
    start, current = 0, unicodedata.category("\0")
    for code_point in range(1, sys.maxunicode + 2):
        category = unicodedata.category(chr(code_point)) if code_point <= sys.maxunicode else ""
        if category != current:
            ranges.setdefault(current, []).append((start, code_point - 1))
            start, current = code_point, category
    for category in list(ranges):
        ranges.setdefault(category[0], []).extend(ranges[category])
    ranges["LC"] = ranges["Lu"] + ranges["Ll"] + ranges["Lt"]
    return {category: CodePoints.of(parts) for category, parts in ranges.items()}
