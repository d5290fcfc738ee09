"""Expressions as text, for people: ``Regular`` values → patterns that read like those of Python.

Sets of characters are cut off after some ranges, and what no pattern says is told in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from guided.regular.codepoints import MAX_CODE_POINT, CodePoints
from guided.regular.expression import (
    Alternate,
    Chars,
    Concat,
    End,
    Graph,
    Intersection,
    Look,
    Regular,
    Repeat,
    SeparatedRepeat,
    Start,
)

__all__ = ["REPEATS", "format_expression", "format_pattern"]

REPEATS: Final = {(0, None): "*", (1, None): "+", (0, 1): "?"}
"""The signs of repetitions that have one, by their bounds."""
_MOST_RANGES: Final = 12
"""Ranges of a character class that are printed; the letters of Unicode alone are hundreds."""
_ESCAPED: Final = frozenset('\\"[]()*+?|.{}^$/')
_ESCAPED_IN_CLASS: Final = _ESCAPED | {"-"}


def format_pattern(regular: Regular) -> str:
    """Print a single text in quotes, a character class bare, and other patterns in slashes."""
    text = _only_text(regular)
    if text is not None:
        return f'"{text}"'
    formatted = format_expression(regular)
    return formatted if isinstance(regular, Chars) else f"/{formatted}/"


def _only_text(regular: Regular) -> str | None:
    """Return the only text of an expression, escaped; ``None`` if it is empty or one of several."""
    parts = regular.parts if isinstance(regular, Concat) else (regular,)
    spelled = [_only_character(part) for part in parts]
    return None if None in spelled or not parts else "".join(map(str, spelled))


def _only_character(part: Regular) -> str | None:
    """Return the only character of an expression, escaped; ``None`` if it has several."""
    if not isinstance(part, Chars) or len(part.chars.ranges) != 1:
        return None
    low, high = part.chars.ranges[0]
    return _format_character(low, '"\\') if low == high else None


def format_expression(regular: Regular, *, is_part: bool = False) -> str:
    """Print an expression; with ``is_part``, in brackets where it is ambiguous in another one."""
    match regular:
        case Chars(chars):
            return _format_class(chars)
        case Start():
            return "^"
        case End():
            return "$"
        case Look(item, ahead, negative):
            sign = ("?" if ahead else "?<") + ("!" if negative else "=")
            return f"({sign}{format_expression(item)})"
        case Graph():
            return f"<graph of {regular.count} states>"
        case Repeat(item, low, high):
            bounds = f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
            sign = REPEATS.get((low, high), bounds)
            formatted = format_expression(item, is_part=True) + sign
        case SeparatedRepeat(item, between):
            first, more = format_expression(item), format_expression(between)
            formatted = f"{first}({more}{first})*"
        case Intersection(left, right, negative):
            first, second = format_expression(left), format_expression(right)
            formatted = f"{first} {'&!' if negative else '&'} {second}"
        case Concat(parts):
            formatted = "".join(
                [format_expression(part, is_part=not _needs_no_brackets(part)) for part in parts]
            )
            return f"({formatted})" if is_part and len(parts) != 1 else formatted
        case Alternate(options):
            formatted = "|".join(map(format_expression, options)) or "nothing"
    return f"({formatted})" if is_part else formatted


def _needs_no_brackets(part: Regular) -> bool:
    """Return whether a part of a concatenation is unambiguous without brackets."""
    return not isinstance(part, Alternate | Intersection | SeparatedRepeat)


def _format_class(chars: CodePoints) -> str:
    """Print a set of characters; negated, as ``[^…]``, if it contains the last code point."""
    if len(chars.ranges) == 1 and chars.ranges[0][0] == chars.ranges[0][1]:
        return _format_character(chars.ranges[0][0])
    if chars.ranges and chars.ranges[-1][1] == MAX_CODE_POINT:
        return f"[^{_format_ranges((~chars).ranges)}]"
    return f"[{_format_ranges(chars.ranges)}]"


def _format_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    """Print the ranges of a character class, at most the first _MOST_RANGES."""
    shown = [
        _format_character(low, _ESCAPED_IN_CLASS)
        + (f"-{_format_character(high, _ESCAPED_IN_CLASS)}" if high > low else "")
        for low, high in ranges[:_MOST_RANGES]
    ]
    return "".join(shown) + ("…" if len(ranges) > _MOST_RANGES else "")


def _format_character(code: int, escaped: Iterable[str] = _ESCAPED) -> str:
    character = chr(code)
    if character in escaped:
        return f"\\{character}"
    return character if character.isprintable() and code < 0x7F else ascii(character)[1:-1]
