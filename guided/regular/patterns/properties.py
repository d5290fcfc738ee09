"""The properties of Unicode that ``\\p`` names (ECMA-262, section 22.2.1, tables 67 to 70).

The standard library does not know scripts, and its other tables are for a different version of
Unicode in every Python. So everything comes from one table (``unicode.txt``), whose head names its
version and source.

Ranges in the table are numbers in base 36 with a dot between: how many code points lie between a
range and the one before, then the number in it less one, which is left out where it is zero::

    (0x41, 0x5A), (0x61, 0x7A), (0xAA, 0xAA)   ->   1t:p.6:p.1b
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from guided.regular.codepoints import ANY, CodePoints

__all__ = [
    "nearest_property",
    "property_names",
    "read_ranges",
    "unicode_folds",
    "unicode_property",
]

_KIND_BY_PROPERTY: Final = {
    "General_Category": "gc",
    "gc": "gc",
    "Script": "sc",
    "sc": "sc",
    "Script_Extensions": "scx",
    "scx": "scx",
}
"""The kind in the table of each property that has values, by each of its names."""
_NAME_PREFIXES: Final = {"": "", "gc": "", "sc": "Script="}
"""What hints put before a name, by kind; without ``scx``, whose names are those of ``sc``."""
_BINARY, _FOLD = "", "fold"


@functools.lru_cache(maxsize=512)  # requests choose the names
def unicode_property(text: str) -> CodePoints | None:
    """Return the code points of ``\\p{text}``; None for an unknown name."""
    name, equals, value = text.partition("=")
    if equals:
        return _look_up(_KIND_BY_PROPERTY[name], value) if name in _KIND_BY_PROPERTY else None
    match name:
        case "Any":
            return ANY
        case "ASCII":
            return CodePoints.from_ranges([(0, 0x7F)])
        case "Assigned":
            unassigned = _look_up("gc", "Cn")
            assert unassigned is not None, "the table has all categories"
            return ~unassigned
    binary = _look_up(_BINARY, name)
    return _look_up("gc", name) if binary is None else binary


def property_names() -> tuple[str, ...]:
    """Return all texts that ``\\p{…}`` may contain."""
    names = (f"{kind}={name}" if kind else name for kind, name in _table() if kind != _FOLD)
    return ("Any", "ASCII", "Assigned", *names)


def nearest_property(text: str) -> str | None:
    """Return the name for a hint where another dialect's, such as ``IsGreek``, was written.

    The first similar one in the table, ``None`` if there is none.
    """
    meant = _normalize(text.rpartition("=")[2])
    for kind, name in _table():
        if kind in _NAME_PREFIXES and _normalize(name) in (meant, meant.removeprefix("is")):
            return _NAME_PREFIXES[kind] + name
    return None


@functools.cache
def unicode_folds() -> Mapping[int, int]:
    """Return the simple case folding, by code point, for those that it changes."""
    return MappingProxyType(
        {
            code_point: code_point + int(shift)
            for (kind, shift), written in _table().items()
            if kind == _FOLD
            for first, last in read_ranges(written)
            for code_point in range(first, last + 1)
        }
    )


def _look_up(kind: str, name: str) -> CodePoints | None:
    written = _table().get((kind, name))
    return None if written is None else CodePoints.from_ranges(read_ranges(written))


def _normalize(name: str) -> str:
    """Return a name as loose matching compares it (Unicode Standard Annex 44, UAX44-LM3)."""
    return "".join(filter(str.isalnum, name.lower()))


@functools.cache
def _table() -> Mapping[tuple[str, str], str]:
    """Return the ranges as text, by kind (empty for binary properties) and by each name.

    In the file a line has the kind, all names, and after a tab the ranges. For the kind ``fold`` a
    name is the difference between the folding of its code points and them.
    """
    found: dict[tuple[str, str], str] = {}
    text = files("guided.regular.patterns").joinpath("unicode.txt").read_text("utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            head, _, ranges = line.partition("\t")
            kind, *names = head.split(" ")
            found.update({(kind, name): ranges for name in names})
    return MappingProxyType(found)


def read_ranges(text: str) -> list[tuple[int, int]]:
    """Parse the ranges of one line of the table, both ends inclusive, in ascending order."""
    ranges: list[tuple[int, int]] = []
    next_ = 0
    for part in text.split("."):
        gap, _, more = part.partition(":")
        first = next_ + int(gap, 36)
        last = first + (int(more, 36) if more else 0)
        ranges.append((first, last))
        next_ = last + 1
    return ranges
