"""Everyday patterns of Python's ``re``, read in a fraction of the time that its own parser takes.

Letters, classes, groups, alternatives, repeats and look-ahead, without flags: as Python reads them.
All else that a pattern may hold, and every pattern that is wrong, is left to Python's own parser.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from guided.regular.codepoints import CodePoints
from guided.regular.expression import Alternate, Chars, Concat, Look, Regular, Repeat
from guided.regular.patterns.python_classes import unicode_class

__all__ = ["plain_regular"]

_MAX_DEPTH: Final = 20
"""Groups inside of one another."""
_LOOKS: Final = {"(?=": False, "(?!": True}
"""What looks ahead, and whether for what must not follow."""
_REPEATS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_BOUNDS: Final = re.compile(r"\{(?:([0-9]{1,4})(,?)([0-9]{0,4})|,([0-9]{1,4}))\}")
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_CLASSES: Final = {"d": "DIGIT", "s": "SPACE", "w": "WORD"}
_HEX: Final = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")
_ENDS_SEQUENCE: Final = "|)"
_NO_LETTERS: Final = "^$*+?{}]"
_SAYS_MORE_IN_CLASS: Final = ("--", "&&", "~~", "||")
"""What Python warns of, since it may come to mean something."""
_DOT: Final = Chars(~CodePoints.single("\n"))


class _NotPlainError(Exception):
    """The pattern holds something else."""


def plain_regular(text: str) -> Regular | None:
    """The texts of a pattern without flags; ``None`` for one that is left to Python's parser."""
    reader = _Reader(text)
    try:
        regular = reader.choice(0)
    except _NotPlainError:
        return None
    return regular if reader.position == len(text) else None


class _Reader:
    """Recursive descent; ``position`` is where the text is read on."""

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self.position = 0

    def choice(self, depth: int) -> Regular:
        options = [self.sequence(depth)]
        while self.next() == "|":
            self.position += 1
            options.append(self.sequence(depth))
        if len(options) == 1:
            return options[0]
        letters = [option.chars for option in options if isinstance(option, Chars)]
        if len(letters) == len(options):
            return Chars(CodePoints.of(bounds for chars in letters for bounds in chars.ranges))
        return Alternate(tuple(options))

    def next(self) -> str:
        """The next character, none at the end."""
        return self.text[self.position : self.position + 1]

    def sequence(self, depth: int) -> Regular:
        parts: list[Regular] = []
        while self.position < len(self.text) and self.next() not in _ENDS_SEQUENCE:
            parts.append(self.repeated(depth))
        return parts[0] if len(parts) == 1 else Concat(tuple(parts))

    def repeated(self, depth: int) -> Regular:
        item = self.item(depth)
        sign = self.next()
        if sign != "{" and sign not in _REPEATS:
            return item
        low, high = self.bounds() if sign == "{" else _REPEATS[sign]
        self.position += sign != "{"
        lazy = self.next() == "?"
        self.position += lazy
        behind = self.next()
        if isinstance(item, Look) or behind == "{" or behind in _REPEATS:
            raise _NotPlainError
        return Repeat(item, low, high, lazy=lazy)

    def bounds(self) -> tuple[int, int | None]:
        found = _BOUNDS.match(self.text, self.position)
        if found is None:
            raise _NotPlainError
        self.position = found.end()
        exact, comma, most, most_alone = found.groups()
        if exact is None:
            return 0, int(most_alone)
        low = int(exact)
        high = int(most) if most else None if comma else low
        if (most and not comma) or (high is not None and high < low):
            raise _NotPlainError
        return low, high

    def item(self, depth: int) -> Regular:
        sign = self.next()
        if sign == "(":
            return self.group(depth)
        if sign == "[":
            return Chars(self.members())
        if sign == "\\":
            return Chars(self.escaped())
        if sign in _NO_LETTERS:
            raise _NotPlainError
        self.position += 1
        return _DOT if sign == "." else _letter(sign)

    def group(self, depth: int) -> Regular:
        begun = self.text[self.position : self.position + 3]
        if depth == _MAX_DEPTH or (begun[1:2] == "?" and begun != "(?:" and begun not in _LOOKS):
            raise _NotPlainError
        self.position += 3 if begun[1:2] == "?" else 1
        inner = self.choice(depth + 1)
        if self.next() != ")":
            raise _NotPlainError
        self.position += 1
        if begun not in _LOOKS:
            return inner
        if inner == Concat(()):
            raise _NotPlainError
        return Look(inner, ahead=True, negative=_LOOKS[begun])

    def members(self) -> CodePoints:
        """The characters of a class in brackets."""
        self.position += 1
        negated = self.next() == "^"
        self.position += negated
        ranges: list[tuple[int, int]] = []
        while not ranges or self.next() != "]":
            if self.next() == "]" or self.text.startswith(_SAYS_MORE_IN_CLASS, self.position):
                raise _NotPlainError
            chars = self.member()
            if self.next() == "-" and self.text[self.position + 1 : self.position + 2] != "]":
                self.position += 1
                low, high = _lone(chars), _lone(self.member())
                if high < low:
                    raise _NotPlainError
                ranges.append((low, high))
            else:
                ranges += chars.ranges
        self.position += 1
        members = CodePoints.of(ranges)
        return ~members if negated else members

    def member(self) -> CodePoints:
        """A character of a class in brackets, or those of a class in it."""
        sign = self.next()
        if sign == "\\":
            return self.escaped()
        if sign in ("", "["):
            raise _NotPlainError
        self.position += 1
        return _letter(sign).chars

    def escaped(self) -> CodePoints:
        """What stands behind a backslash."""
        self.position += 1
        sign = self.next()
        if sign.lower() in _CLASSES:
            self.position += 1
            chars = unicode_class(_CLASSES[sign.lower()])
            return ~chars if sign.isupper() else chars
        if sign in ("x", "u"):
            found = _HEX.match(self.text, self.position)
            if found is None:
                raise _NotPlainError
            self.position = found.end()
            return _letter(chr(int(found[1] or found[2], 16))).chars
        if sign not in _CONTROLS and (not sign or sign.isalnum() or not sign.isascii()):
            raise _NotPlainError
        self.position += 1
        return _letter(_CONTROLS.get(sign, sign)).chars


def _lone(chars: CodePoints) -> int:
    if len(chars.ranges) != 1 or chars.ranges[0][0] != chars.ranges[0][1]:
        raise _NotPlainError
    return chars.ranges[0][0]


@functools.lru_cache(maxsize=1024)
def _letter(character: str) -> Chars:
    return Chars(CodePoints.single(character))
