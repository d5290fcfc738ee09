"""Regular expressions of ECMA-262 (section 22.2, Unicode mode) into ``Regular`` values.

Matching is over code points. Names of groups may be written as in Rust and Python (``(?P<n>…)``)
too, since Pydantic's patterns come from there. Of what browsers allow beyond the standard (annex
B), what can mean one thing only is understood: ``\\-`` outside of a class, ``[\\w-.]``, a brace
that bounds no repeat. Back references are refused with their position: they are not regular.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final, NoReturn

from guided.automata.codepoints import MAX_CODE_POINT, CodePoints
from guided.automata.regular import (
    Alternate,
    Chars,
    Concat,
    End,
    Look,
    Regular,
    Repeat,
    Start,
    word_boundary,
)
from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.frontends.regex.classes import DIGIT, LINE_END, SPACE, WORD
from guided.frontends.regex.properties import unicode_property

__all__ = ["MAX_GROUP_DEPTH", "MAX_PATTERN_LENGTH", "MAX_REPEAT", "parse_regex"]

MAX_PATTERN_LENGTH: Final = 20_000
MAX_GROUP_DEPTH: Final = 100
MAX_REPEAT: Final = 20_000

_CLASS_ESCAPES: Final = {
    "d": DIGIT,
    "D": ~DIGIT,
    "w": WORD,
    "W": ~WORD,
    "s": SPACE,
    "S": ~SPACE,
}
_CONTROL_ESCAPES: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
_UNSUPPORTED_ESCAPES: Final = {
    "k": "a back reference",
    "A": "an anchor of another dialect (write ^)",
    "z": "an anchor of another dialect (write $)",
    "Z": "an anchor of another dialect (write $)",
}
_QUANTIFIERS: Final[dict[str, tuple[int, int | None]]] = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
    "{": (0, None),  # its bounds follow
}
_DOT: Final = Chars(~LINE_END)
_LOOK_AROUND: Final = {
    "?=": (True, False),
    "?!": (True, True),
    "?<=": (False, False),
    "?<!": (False, True),
}
"""Whether it looks ahead, and whether it is negative."""


def parse_regex(text: str, *, pointer: str | None = None) -> Regular:
    """The expression that ``text`` writes; ``pointer`` says in errors where the text stands.

    Raises InvalidConstraintError, UnsupportedFeatureError or LimitExceededError.
    """
    if len(text) > MAX_PATTERN_LENGTH:
        raise LimitExceededError(
            f"the pattern has {len(text)} characters, more than {MAX_PATTERN_LENGTH}",
            limit=MAX_PATTERN_LENGTH,
            pointer=pointer,
            hint="say it with several patterns, or with several rules of a grammar",
        )
    parser = _Parser(text, pointer)
    regular = parser.alternatives()
    if parser.position < len(text):
        parser.invalid("unmatched ')'")
    return regular


class _Parser:
    """Recursive descent over the grammar of ECMA-262, section 22.2.1."""

    def __init__(self, text: str, pointer: str | None) -> None:
        self.text = text
        self.pointer = pointer
        self.position = 0
        self.depth = 0

    def alternatives(self) -> Regular:
        options = [self.sequence()]
        while self.take("|"):
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Alternate(tuple(options))

    def sequence(self) -> Regular:
        parts: list[Regular] = []
        while self.position < len(self.text) and (character := self.peek()) not in "|)":
            parts.append(self.term(character))
        return parts[0] if len(parts) == 1 else Concat(tuple(parts))

    def term(self, character: str) -> Regular:
        """The term that begins with ``character``."""
        start = self.position
        if character == "\\" and self.text.startswith(("\\b", "\\B"), start):
            self.position += 2
            return word_boundary(WORD, negative=self.text[start + 1] == "B")
        if character == "(":
            for sign, (ahead, negative) in _LOOK_AROUND.items():
                if self.text.startswith(sign, start + 1):
                    return self.look_around(sign, ahead=ahead, negative=negative)
        self.position += 1
        if character == "^":
            return Start()
        if character == "$":
            return End()
        return self.quantified(self.atom(character, start))

    def atom(self, character: str, start: int) -> Regular:
        match character:
            case ".":
                return _DOT
            case "(":
                return self.group(start)
            case "[":
                return Chars(self.bracket(start))
            case "\\":
                chars = self.escape(start, in_class=False)
                return (
                    _single(self.scalar(chars, start)) if isinstance(chars, int) else Chars(chars)
                )
            case "*" | "+" | "?":
                self.invalid(f"nothing to repeat before {character!r}", start)
            case "{" if self.looks_like_bounds():
                self.invalid("nothing to repeat before '{'", start)
            case _:
                return _single(ord(character))

    def look_around(self, sign: str, *, ahead: bool, negative: bool) -> Regular:
        start = self.position
        self.position += 1 + len(sign)
        item = self.inside(start)
        if not ahead and _mentions_end(item):
            self.unsupported("'$' inside of a look-behind", start)
        return Look(item, ahead, negative)

    def group(self, start: int) -> Regular:
        if self.take("?"):
            if self.take("P<") or self.take("<"):
                end = self.text.find(">", self.position)
                if end < 0 or not self.text[self.position : end].isidentifier():
                    self.invalid("the name of a group is not an identifier", start)
                self.position = end + 1
            elif not self.take(":"):
                self.unsupported("a flag or an extension inside '(?'", start)
        return self.inside(start)

    def inside(self, start: int) -> Regular:
        """What stands between the parentheses of the group that begins at ``start``."""
        self.depth += 1
        if self.depth > MAX_GROUP_DEPTH:
            raise LimitExceededError(
                f"groups are nested deeper than {MAX_GROUP_DEPTH} at character {start}",
                limit=MAX_GROUP_DEPTH,
                pointer=self.pointer,
            )
        inner = self.alternatives()
        if not self.take(")"):
            self.invalid("unmatched '('", start)
        self.depth -= 1
        return inner

    def quantified(self, item: Regular) -> Regular:
        start = self.position
        sign = self.text[start : start + 1]
        if sign not in _QUANTIFIERS:
            return item
        self.position += 1
        if sign == "{" and not self.looks_like_bounds():
            self.position = start
            return item
        low, high = self.bounds(start) if sign == "{" else _QUANTIFIERS[sign]
        self.take("?")  # a lazy quantifier has the same language
        if self.position < len(self.text) and self.peek() in "*+?":
            self.invalid("nothing to repeat: a quantifier follows a quantifier")
        return Repeat(item, low, high)

    def looks_like_bounds(self) -> bool:
        """Whether the text behind a brace is ``n}``, ``n,}`` or ``n,m}``."""
        end = self.text.find("}", self.position)
        low, comma, high = self.text[self.position : max(end, self.position)].partition(",")
        if comma and not low and (not high or _is_number(high)):
            self.invalid("the bounds of a repeat begin with a number", self.position - 1)
        return _is_number(low) and (not high or _is_number(high)) and (bool(comma) or not high)

    def bounds(self, start: int) -> tuple[int, int | None]:
        end = self.text.index("}", self.position)
        first, comma, last = self.text[self.position : end].partition(",")
        self.position = end + 1
        if max(len(first), len(last)) > len(str(MAX_REPEAT)):
            raise self.repeats_too_often(max(first, last, key=len)[:20], start)
        low = int(first)
        high = None if comma and not last else int(last or first)
        if high is not None and high < low:
            self.invalid(f"the bounds {{{low},{high}}} are out of order", start)
        if max(low, high or 0) > MAX_REPEAT:
            raise self.repeats_too_often(str(max(low, high or 0)), start)
        return low, high

    def repeats_too_often(self, times: str, start: int) -> LimitExceededError:
        return LimitExceededError(
            f"the pattern repeats {times} times at character {start}, more than {MAX_REPEAT}",
            limit=MAX_REPEAT,
            pointer=self.pointer,
        )

    def bracket(self, start: int) -> CodePoints:
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
            high = self.class_atom()
            if not isinstance(low, int) or not isinstance(high, int):
                # [\w-.] -> [\w\-.], since no range begins or ends with a class.
                ranges += [*_ranges(low), (ord("-"), ord("-")), *_ranges(high)]
            elif low > high:
                self.invalid(f"the range {chr(low)!r} to {chr(high)!r} is out of order", here)
            else:
                ranges.append((low, high))
        chars = CodePoints.of(ranges)
        if ranges and not chars:
            self.unsupported("surrogates, which no text holds alone,", start)
        return ~chars if negated else chars

    def class_atom(self) -> int | CodePoints:
        start = self.position
        character = self.next()
        return self.escape(start, in_class=True) if character == "\\" else ord(character)

    def escape(self, start: int, *, in_class: bool) -> int | CodePoints:
        """What is escaped: one code point, surrogates included, or a class of them."""
        character = self.next()
        if character in _CLASS_ESCAPES:
            return _CLASS_ESCAPES[character]
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
            letter = self.next()
            if not (letter.isascii() and letter.isalpha()):
                self.invalid("a letter has to follow '\\c'", start)
            return ord(letter) % 32
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
        if self.take("{"):
            end = self.text.find("}", self.position)
            digits = self.text[self.position : max(end, self.position)]
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
        if not self.take("{"):
            self.invalid("'{' has to follow '\\p'", start)
        end = self.text.find("}", self.position)
        if end < 0:
            self.invalid("unmatched '{'", start)
        name = self.text[self.position : end]
        self.position = end + 1
        chars = unicode_property(name)
        if chars is None:
            self.unsupported(f"the property {name!r}, of which nothing is known here,", start)
        return ~chars if negated else chars

    def scalar(self, code_point: int, start: int) -> int:
        if 0xD800 <= code_point < 0xE000:
            self.invalid(f"{code_point:#x} is a surrogate, which no text holds alone", start)
        return code_point

    def hexadecimal(self, count: int, start: int) -> int:
        digits = self.text[self.position : self.position + count]
        self.position += count
        if len(digits) < count:
            self.invalid(f"{count} hexadecimal digits have to follow", start)
        return self.from_hexadecimal(digits, start)

    def from_hexadecimal(self, digits: str, start: int) -> int:
        if not digits or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            self.invalid(f"{digits!r} is not hexadecimal", start)
        # More digits than a code point has would take long to read.
        value = int(digits.lstrip("0")[:7] or "0", 16)
        if value > MAX_CODE_POINT:
            self.invalid(f"{digits[:12]!r} is no code point", start)
        return value

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

    def invalid(self, message: str, position: int | None = None) -> NoReturn:
        position = self.position if position is None else position
        raise InvalidConstraintError(
            f"the pattern {self.text!r} is wrong at character {position}: {message}",
            pointer=self.pointer,
            position=position,
        )

    def unsupported(self, what: str, position: int) -> NoReturn:
        raise UnsupportedFeatureError(
            f"the pattern {self.text!r} uses {what} at character {position}",
            pointer=self.pointer,
            position=position,
            hint="write the pattern without it",
        )


@functools.lru_cache(maxsize=1024)
def _single(code_point: int) -> Chars:
    return Chars(CodePoints.of([(code_point, code_point)]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _ranges(atom: int | CodePoints) -> Iterable[tuple[int, int]]:
    return [(atom, atom)] if isinstance(atom, int) else atom.ranges


def _mentions_end(node: Regular) -> bool:
    match node:
        case End():
            return True
        case Concat(parts) | Alternate(parts):
            return any(map(_mentions_end, parts))
        case Repeat(item) | Look(item):
            return _mentions_end(item)
        case _:
            return False
