"""Whatever stands for one character in patterns of ECMA-262: symbols, escapes, classes in brackets.

The base of it is the text of the pattern while it is read, with errors that point into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn

from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.regular.codepoints import MAX_CODE_POINT, CodePoints
from guided.regular.patterns.character_classes import DIGIT, SPACE, WORD, folded_alike
from guided.regular.patterns.properties import nearest_property, unicode_property
from guided.spec.source_position import SourcePosition

__all__ = ["CharacterReader"]

_CLASSES: Final = {"d": DIGIT, "s": SPACE, "w": WORD}
_CONTROL_ESCAPES: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
_UNSUPPORTED_ESCAPES: Final = {
    "k": "a back reference",
    "A": "an anchor of another dialect (write ^)",
    "z": "an anchor of another dialect (write $)",
    "Z": "an anchor of another dialect (write $)",
}
_NO_SETS: Final = (
    "classes inside of classes and operations on them need the flag v, which no schema can give:"
    " write '[' as '\\[', and a difference as a look-ahead, (?![a-z])\\p{L}"
)


class PatternText:
    """A pattern read from the left; ``position`` is the next character."""

    def __init__(self, text: str, pointer: str | None) -> None:
        self.text = text
        self.pointer = pointer
        self.position = 0

    def peek(self) -> str:
        return self.text[self.position]

    def next(self) -> str:
        if self.position >= len(self.text):
            self.invalid("the pattern ends in the middle of a term")
        self.position += 1
        return self.text[self.position - 1]

    def take(self, expected: str) -> bool:
        if not self.text.startswith(expected, self.position):
            return False
        self.position += len(expected)
        return True

    def invalid(
        self, message: str, position: int | None = None, hint: str | None = None
    ) -> NoReturn:
        """Raise InvalidConstraintError that shows a place, by default the next character."""
        position = self.position if position is None else position
        raise InvalidConstraintError(
            self.shown(f"the pattern is wrong at character {position}: {message}", position),
            pointer=self.pointer,
            position=position,
            hint=hint,
        )

    def unsupported(
        self, what: str, position: int, hint: str = "write the pattern without it"
    ) -> NoReturn:
        """Raise UnsupportedFeatureError that shows where ``what`` stands."""
        raise UnsupportedFeatureError(
            self.shown(f"the pattern uses {what} at character {position}", position),
            pointer=self.pointer,
            position=position,
            hint=hint,
        )

    def shown(self, message: str, position: int) -> str:
        """Return the message, and below it the pattern with a caret at the position."""
        return f"{message}{SourcePosition(self.text, position).picture}"


class CharacterReader(PatternText):
    """Reads what stands for one character, a single one or one of several."""

    def __init__(self, text: str, pointer: str | None) -> None:
        super().__init__(text, pointer)
        self.flags: frozenset[str] = frozenset()
        """Those of i, m and s that are on where the text is read."""
        self.holds_bracket = False
        """Whether a class so far contains '[', as a class nested in it would begin."""

    def alike(self, chars: CodePoints) -> CodePoints:
        """Return the characters, in any case if case is ignored."""
        return folded_alike(chars) if "i" in self.flags else chars

    def bracket(self, start: int) -> CodePoints:
        """Return the set of a class in brackets, whose '[' stands at ``start`` and has been read.

        Empty for ``[]``, which matches nothing. Case is folded before ``^`` negates the set.
        """
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            if self.position >= len(self.text):
                self.invalid("unmatched '['", start)
            here = self.position
            low = self.class_atom()
            if not self.text.startswith("-", self.position) or self.text.startswith(
                "-]", self.position
            ):
                ranges += _ranges(low)
                continue
            self.position += 1
            sign = self.position
            high = self.class_atom()
            if not isinstance(low, int) or not isinstance(high, int):
                if self.text[sign] == "-" and not self.text.startswith("]", self.position):
                    self.invalid("a range from or to a class", here, _NO_SETS)
                # [\w-.] -> [\w\-.], since no range begins or ends with a class.
                ranges += [*_ranges(low), (ord("-"), ord("-")), *_ranges(high)]
            elif low > high:
                self.invalid(f"the range {chr(low)!r} to {chr(high)!r} is out of order", here)
            else:
                ranges.append((low, high))
        chars = CodePoints.of(ranges)
        if ranges and not chars:
            self.unsupported("surrogates, which no text holds alone,", start)
        chars = self.alike(chars)
        return ~chars if negated else chars

    def class_atom(self) -> int | CodePoints:
        """Return one part of a class: a code point, or the set of an escape such as ``\\w``."""
        start = self.position
        character = self.next()
        if character == "[":
            self.holds_bracket = True
        return self.escape(start, in_class=True) if character == "\\" else ord(character)

    def unmatched_bracket(self, start: int) -> None:
        """Refuse a ']' that ends no class, if a class before it contains a '[' as a character.

        The pattern may then have been meant as nested classes. Otherwise the ']' stands for itself,
        and nothing happens.
        """
        if self.holds_bracket:
            self.invalid("unmatched ']'", start, _NO_SETS)

    def escape(self, start: int, *, in_class: bool) -> int | CodePoints:
        """Return an escape's value: one code point, perhaps a surrogate, or a set of code points.

        The backslash stands at ``start``, which errors point to, and has been read. ``in_class``
        says that the escape stands in brackets: ``\\b`` is the backspace there.
        """
        character = self.next()
        if character.lower() in _CLASSES:
            chars = self.alike(_CLASSES[character.lower()])
            return ~chars if character.isupper() else chars
        if character == "b" and in_class:
            return ord("\b")
        if character in _UNSUPPORTED_ESCAPES:
            self.unsupported(_UNSUPPORTED_ESCAPES[character], start)
        if character in "123456789":
            self.unsupported("an octal escape" if in_class else "a back reference", start)
        if character in _CONTROL_ESCAPES:
            if character == "0" and self.text[self.position : self.position + 1].isdecimal():
                self.unsupported("an octal escape", start)
            return ord(_CONTROL_ESCAPES[character])
        if character == "c":
            control = self.next()
            if not (control.isascii() and control.isalpha()):
                self.invalid("a letter has to follow '\\c'", start)
            return ord(control) % 32
        if character == "x":
            return self.hexadecimal(2, start)
        if character == "u":
            return self.unicode_escape(start)
        if character in "pP":
            return self.property_escape(start, negated=character == "P")
        if character.isalnum():
            self.invalid(f"unknown escape '\\{character}'", start)
        return ord(character)

    def unicode_escape(self, start: int) -> int:
        """Return the code point of ``\\u{1F600}``, ``\\u00e9`` or a surrogate pair, after ``u``.

        May be a lone surrogate, which ``scalar`` refuses if it stands alone; ``start`` is where
        the backslash stands.
        """
        if self.take("{"):
            end = self.text.find("}", self.position)
            digits = self.text[self.position : max(end, self.position)]
            # Without a brace ``end`` is -1, and there are no digits, which is refused.
            self.position = end + 1
            return self.from_hexadecimal(digits, start)
        first = self.hexadecimal(4, start)
        # A pair of surrogates writes one code point.
        if 0xD800 <= first < 0xDC00 and self.text.startswith("\\u", self.position):
            here = self.position
            self.position += 2
            if not self.text.startswith("{", self.position):
                second = self.hexadecimal(4, start)
                if 0xDC00 <= second < 0xE000:
                    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            self.position = here
        return first

    def property_escape(self, start: int, *, negated: bool) -> CodePoints:
        """Return the set of ``\\p{…}``, or with ``negated`` of ``\\P{…}``, after its ``p``."""
        if not self.take("{"):
            self.invalid("'{' has to follow '\\p'", start)
        end = self.text.find("}", self.position)
        if end < 0:
            self.invalid("unmatched '{'", start)
        name = self.text[self.position : end]
        self.position = end + 1
        chars = unicode_property(name)
        if chars is None:
            near = nearest_property(name)
            hint = None if near is None else f"write \\p{{{near}}}"
            self.invalid(f"ECMA-262 knows no property {name!r}", start, hint)
        return ~chars if negated else chars

    def scalar(self, code_point: int, start: int) -> int:
        """Return the code point, refused if it is a surrogate."""
        if 0xD800 <= code_point < 0xE000:
            self.invalid(f"{code_point:#x} is a surrogate, which no text holds alone", start)
        return code_point

    def hexadecimal(self, count: int, start: int) -> int:
        """Return the number that the next ``count`` characters write; all must be digits."""
        digits = self.text[self.position : self.position + count]
        self.position += count
        if len(digits) < count:
            self.invalid(f"{count} hexadecimal digits have to follow", start)
        return self.from_hexadecimal(digits, start)

    def from_hexadecimal(self, digits: str, start: int) -> int:
        """Return the code point that digits write; refused at ``start`` if they write none."""
        if not digits or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            self.invalid(f"{digits!r} is not hexadecimal", start)
        # More digits than a code point has would take long to read.
        value = int(digits.lstrip("0")[:7] or "0", 16)
        if value > MAX_CODE_POINT:
            self.invalid(f"{digits[:12]!r} is no code point", start)
        return value


def _ranges(atom: int | CodePoints) -> Iterable[tuple[int, int]]:
    return [(atom, atom)] if isinstance(atom, int) else atom.ranges
