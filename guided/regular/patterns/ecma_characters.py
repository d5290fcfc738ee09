"""What matches one character in patterns of ECMA-262: literals, escapes and character classes.

Also the text of a pattern while it is parsed, with errors that show a position in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn

from guided.errors import InvalidConstraintError, UnsupportedFeatureError
from guided.regular.codepoints import MAX_CODE_POINT, CodePoints, is_surrogate, lone_surrogate
from guided.regular.patterns.character_classes import DIGIT, SPACE, WORD, ecma_case_closure
from guided.regular.patterns.properties import nearest_property, unicode_property
from guided.runtime.work_budget import spend
from guided.spec.source_position import SourcePosition

__all__ = ["SET_NOTATION_HINT", "CharacterReader"]

_CLASSES: Final = {"d": DIGIT, "s": SPACE, "w": WORD}
_CONTROL_ESCAPES: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
_UNSUPPORTED_ESCAPES: Final = {
    "k": "a back reference",
    "A": "an anchor of another dialect (write ^)",
    "z": "an anchor of another dialect (write $)",
    "Z": "an anchor of another dialect (write $)",
}
SET_NOTATION_HINT: Final = (
    "classes inside of classes and operations on them need the flag v, which no schema can give:"
    " write '[' as '\\[', and a difference as a look-ahead, (?![a-z])\\p{L}"
)


class CharacterReader:
    """Parses what matches one character: a literal, an escape or a class."""

    def __init__(self, text: str, pointer: str | None) -> None:
        self.text = text
        self.pointer = pointer
        self.position = 0
        """The index of the next character."""
        self.flags: frozenset[str] = frozenset()
        """Those of i, m and s that are on where the text is read."""
        self.has_bracket_in_class = False
        """Whether some class so far contains '[', which may have been meant as a nested class."""

    def peek(self) -> str:
        """Return the next character, which must exist."""
        return self.text[self.position]

    def next(self) -> str:
        """Read one character; raises InvalidConstraintError at the end."""
        if self.position >= len(self.text):
            self.raise_invalid("the pattern ends in the middle of a term")
        self.position += 1
        return self.text[self.position - 1]

    def take(self, expected: str) -> bool:
        """Read ``expected`` if it comes next, and return whether it does."""
        if not self.text.startswith(expected, self.position):
            return False
        self.position += len(expected)
        return True

    def raise_invalid(
        self, message: str, position: int | None = None, hint: str | None = None
    ) -> NoReturn:
        """Raise InvalidConstraintError that shows a position, by default the next character."""
        position = self.position if position is None else position
        raise InvalidConstraintError(
            self.add_excerpt(f"the pattern is wrong at character {position}: {message}", position),
            pointer=self.pointer,
            position=position,
            hint=hint,
        )

    def raise_unsupported(
        self, what: str, position: int, hint: str = "write the pattern without it"
    ) -> NoReturn:
        """Raise UnsupportedFeatureError: ``what``, a noun phrase, begins at ``position``."""
        raise UnsupportedFeatureError(
            self.add_excerpt(f"the pattern uses {what} at character {position}", position),
            pointer=self.pointer,
            position=position,
            hint=hint,
        )

    def add_excerpt(self, message: str, position: int) -> str:
        """Return the message, and below it the pattern with a caret at the position."""
        return f"{message}{SourcePosition(self.text, position).excerpt}"

    def apply_ignore_case(self, chars: CodePoints) -> CodePoints:
        """Return the set, with all letters of any case if the flag i is on."""
        return ecma_case_closure(chars) if "i" in self.flags else chars

    def character_class(self, start: int) -> CodePoints:
        """Parse a class in brackets, whose '[' at ``start`` has been read.

        Empty for ``[]``, which matches nothing. Case is folded before ``^`` negates the set.
        """
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        while not self.take("]"):
            if self.position >= len(self.text):
                self.raise_invalid("unmatched '['", start)
            here = self.position
            low = self.class_member()
            if not self.text.startswith("-", self.position) or self.text.startswith(
                "-]", self.position
            ):
                ranges += _ranges(low)
                continue
            self.position += 1
            after_dash = self.position
            high = self.class_member()
            if not isinstance(low, int) or not isinstance(high, int):
                # ``--`` after a class, by which the flag v writes a difference of sets.
                if self.text[after_dash] == "-" and not self.text.startswith("]", self.position):
                    self.raise_invalid("a range from or to a class", here, SET_NOTATION_HINT)
                # [\w-.] -> [\w\-.], since no range begins or ends with a class.
                ranges += [*_ranges(low), (ord("-"), ord("-")), *_ranges(high)]
            elif low > high:
                self.raise_invalid(f"the range {chr(low)!r} to {chr(high)!r} is out of order", here)
            else:
                ranges.append((low, high))
        chars = CodePoints.from_ranges(ranges)
        if not negated and lone_surrogate(ranges) is not None:
            self.raise_unsupported("surrogates, which no text holds alone,", start)
        chars = self.apply_ignore_case(chars)
        return ~chars if negated else chars

    def class_member(self) -> int | CodePoints:
        """Parse one member of a class: a code point, or the set of an escape such as ``\\w``."""
        spend(1)
        start = self.position
        character = self.next()
        if character == "[":
            self.has_bracket_in_class = True
        return self.escape(start, in_class=True) if character == "\\" else ord(character)

    def escape(self, start: int, *, in_class: bool) -> int | CodePoints:
        """Parse an escape: one code point, perhaps a surrogate, or a set of code points.

        The backslash stands at ``start``, which errors point to, and has been read. ``in_class``
        says that the escape stands in brackets: ``\\b`` is the backspace there.
        """
        character = self.next()
        if character.lower() in _CLASSES:
            chars = self.apply_ignore_case(_CLASSES[character.lower()])
            return ~chars if character.isupper() else chars
        if character == "b" and in_class:
            return ord("\b")
        if character in _UNSUPPORTED_ESCAPES and not in_class:
            self.raise_unsupported(_UNSUPPORTED_ESCAPES[character], start)
        if character in "123456789":
            self.raise_unsupported("an octal escape" if in_class else "a back reference", start)
        if character in _CONTROL_ESCAPES:
            following = self.text[self.position : self.position + 1]
            if character == "0" and following.isascii() and following.isdecimal():
                self.raise_unsupported("an octal escape", start)
            return ord(_CONTROL_ESCAPES[character])
        if character == "c":
            control = self.next()
            if not (control.isascii() and control.isalpha()):
                self.raise_invalid("a letter has to follow '\\c'", start)
            return ord(control) % 32
        if character == "x":
            return self.hexadecimal(2, start)
        if character == "u":
            return self.unicode_escape(start)
        if character in "pP":
            return self.property_escape(start, negated=character == "P")
        if character.isalnum():
            self.raise_invalid(f"unknown escape '\\{character}'", start)
        return ord(character)

    def unicode_escape(self, start: int) -> int:
        """Parse ``\\u{1F600}``, ``\\u00e9`` or a surrogate pair after its ``u``: its code point.

        May be a lone surrogate, which ``check_scalar`` refuses. The backslash stands at ``start``.
        """
        if self.take("{"):
            end = self.text.find("}", self.position)
            digits = self.text[self.position : max(end, self.position)]
            # Without a brace ``end`` is -1, and there are no digits, which is refused.
            self.position = end + 1
            return self.parse_code_point(digits, start)
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
        """Parse ``\\p{…}``, or with ``negated`` ``\\P{…}``, after its ``p``.

        Errors point to ``start``, the backslash. Callers fold case.
        """
        if not self.take("{"):
            self.raise_invalid("'{' has to follow '\\p'", start)
        end = self.text.find("}", self.position)
        if end < 0:
            self.raise_invalid("unmatched '{'", start)
        name = self.text[self.position : end]
        self.position = end + 1
        chars = unicode_property(name)
        if chars is None:
            suggestion = nearest_property(name)
            hint = None if suggestion is None else f"write \\p{{{suggestion}}}"
            self.raise_invalid(f"ECMA-262 knows no property {name!r}", start, hint)
        return ~chars if negated else chars

    def check_scalar(self, code_point: int, start: int) -> int:
        """Return the code point; raises InvalidConstraintError for a surrogate."""
        if is_surrogate(code_point):
            self.raise_invalid(f"{code_point:#x} is a surrogate, which no text holds alone", start)
        return code_point

    def hexadecimal(self, count: int, start: int) -> int:
        """Parse a code point, perhaps a surrogate, of ``count`` hexadecimal digits."""
        digits = self.text[self.position : self.position + count]
        self.position += count
        if len(digits) < count:
            self.raise_invalid(f"{count} hexadecimal digits have to follow", start)
        return self.parse_code_point(digits, start)

    def parse_code_point(self, digits: str, start: int) -> int:
        """Return the code point of some digits; raises InvalidConstraintError if it is none."""
        if not digits or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            self.raise_invalid(f"{digits!r} is not hexadecimal", start)
        # More digits than a code point has would take long to read.
        value = int(digits.lstrip("0")[:7] or "0", 16)
        if value > MAX_CODE_POINT:
            self.raise_invalid(f"{digits[:12]!r} is no code point", start)
        return value


def _ranges(atom: int | CodePoints) -> Iterable[tuple[int, int]]:
    return [(atom, atom)] if isinstance(atom, int) else atom.ranges
