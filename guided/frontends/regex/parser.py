"""Regular expressions of ECMA-262 (section 22.2, Unicode mode) into ``Regular`` values.

Matching is over code points. Names of groups may be written as in Rust and Python (``(?P<n>…)``)
too, since Pydantic's patterns come from there. What decides by more than the text read so far
(look-around, word boundaries, back references) is refused with its position.
"""

from __future__ import annotations

from typing import NoReturn

from guided.automata.codepoints import MAX_CODE_POINT, CodePoints
from guided.automata.regular import Alternate, Chars, Concat, End, Regular, Repeat, Start
from guided.errors import InvalidConstraintError, LimitExceededError, UnsupportedFeatureError
from guided.frontends.regex.classes import DIGIT, LINE_END, SPACE, WORD, general_category

__all__ = ["MAX_GROUP_DEPTH", "MAX_PATTERN_LENGTH", "MAX_REPEAT", "parse_regex"]

MAX_PATTERN_LENGTH = 20_000
MAX_GROUP_DEPTH = 100
MAX_REPEAT = 20_000

_CLASS_ESCAPES = {
    "d": DIGIT,
    "D": ~DIGIT,
    "w": WORD,
    "W": ~WORD,
    "s": SPACE,
    "S": ~SPACE,
}
_CONTROL_ESCAPES = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
_UNSUPPORTED_ESCAPES = {
    "b": "a word boundary",
    "B": "a word boundary",
    "k": "a back reference",
    "A": "an anchor of another dialect (write ^)",
    "z": "an anchor of another dialect (write $)",
    "Z": "an anchor of another dialect (write $)",
}
_LOOK_AROUND = {"=": "look-ahead", "!": "look-ahead", "<=": "look-behind", "<!": "look-behind"}


def parse_regex(text: str, *, pointer: str | None = None) -> Regular:
    """The expression that ``text`` writes; ``pointer`` says in errors where the text stands.

    Raises InvalidConstraintError, UnsupportedFeatureError or LimitExceededError.
    """
    if len(text) > MAX_PATTERN_LENGTH:
        raise LimitExceededError(
            f"the pattern has {len(text)} characters, more than {MAX_PATTERN_LENGTH}",
            limit=MAX_PATTERN_LENGTH,
            pointer=pointer,
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
        while self.position < len(self.text) and self.peek() not in "|)":
            parts.append(self.term())
        return parts[0] if len(parts) == 1 else Concat(tuple(parts))

    def term(self) -> Regular:
        if self.take("^"):
            return Start()
        if self.take("$"):
            return End()
        return self.quantified(self.atom())

    def atom(self) -> Regular:
        start = self.position
        character = self.next()
        match character:
            case ".":
                return Chars(~LINE_END)
            case "(":
                return self.group(start)
            case "[":
                return Chars(self.bracket(start))
            case "\\":
                return Chars(self.escape(start, in_class=False))
            case "*" | "+" | "?":
                self.invalid(f"nothing to repeat before {character!r}", start)
            case "{" if self.looks_like_bounds():
                self.invalid("nothing to repeat before '{'", start)
            case _:
                return Chars(CodePoints.single(character))

    def group(self, start: int) -> Regular:
        self.depth += 1
        if self.depth > MAX_GROUP_DEPTH:
            raise LimitExceededError(
                f"groups are nested deeper than {MAX_GROUP_DEPTH} at character {start}",
                limit=MAX_GROUP_DEPTH,
                pointer=self.pointer,
            )
        if self.take("?"):
            for sign, name in _LOOK_AROUND.items():
                if self.text.startswith(sign, self.position):
                    self.unsupported(name, start)
            if self.take("P<") or self.take("<"):
                end = self.text.find(">", self.position)
                if end < 0 or not self.text[self.position : end].isidentifier():
                    self.invalid("the name of a group is not an identifier", start)
                self.position = end + 1
            elif not self.take(":"):
                self.unsupported("a flag or an extension inside '(?'", start)
        inner = self.alternatives()
        if not self.take(")"):
            self.invalid("unmatched '('", start)
        self.depth -= 1
        return inner

    def quantified(self, item: Regular) -> Regular:
        start = self.position
        low: int
        high: int | None
        if self.take("*"):
            low, high = 0, None
        elif self.take("+"):
            low, high = 1, None
        elif self.take("?"):
            low, high = 0, 1
        elif self.position < len(self.text) and self.peek() == "{":
            self.position += 1
            if not self.looks_like_bounds():
                self.position = start
                return item
            low, high = self.bounds(start)
        else:
            return item
        self.take("?")  # a lazy quantifier has the same language
        if self.position < len(self.text) and self.peek() in "*+?":
            self.invalid("nothing to repeat: a quantifier follows a quantifier")
        return Repeat(item, low, high)

    def looks_like_bounds(self) -> bool:
        """Whether the text behind a brace is ``n}``, ``n,}`` or ``n,m}``."""
        end = self.text.find("}", self.position)
        low, comma, high = self.text[self.position : max(end, self.position)].partition(",")
        if comma and not low and (not high or high.isdecimal()):
            self.invalid("the bounds of a repeat begin with a number", self.position - 1)
        return low.isdecimal() and (not high or high.isdecimal()) and (bool(comma) or not high)

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
        while True:
            if self.position >= len(self.text):
                self.invalid("unmatched '['", start)
            if self.take("]"):
                chars = CodePoints.of(ranges)
                return ~chars if negated else chars
            here = self.position
            low = self.class_atom()
            if self.text.startswith("-", self.position) and not self.text.startswith(
                "-]", self.position
            ):
                self.position += 1
                high = self.class_atom()
                if not (_is_single(low) and _is_single(high)):
                    self.invalid("a range has a class of characters as its end", here)
                first, last = low.ranges[0][0], high.ranges[0][0]
                if first > last:
                    self.invalid(f"the range {chr(first)}-{chr(last)} is out of order", here)
                low = CodePoints.of([(first, last)])
            ranges += low.ranges

    def class_atom(self) -> CodePoints:
        start = self.position
        character = self.next()
        if character == "\\":
            return self.escape(start, in_class=True)
        return CodePoints.single(character)

    def escape(self, start: int, *, in_class: bool) -> CodePoints:
        character = self.next()
        if character in _CLASS_ESCAPES:
            return _CLASS_ESCAPES[character]
        if character == "b" and in_class:
            return CodePoints.single("\b")
        if character in _UNSUPPORTED_ESCAPES:
            self.unsupported(_UNSUPPORTED_ESCAPES[character], start)
        if character in "123456789":
            self.unsupported("a back reference", start)
        if character in _CONTROL_ESCAPES:
            return CodePoints.single(_CONTROL_ESCAPES[character])
        if character == "c":
            letter = self.next()
            if not (letter.isascii() and letter.isalpha()):
                self.invalid("a letter has to follow '\\c'", start)
            return CodePoints.single(chr(ord(letter) % 32))
        if character == "x":
            return self.code_point(self.hexadecimal(2, start), start)
        if character == "u":
            return self.code_point(self.unicode_escape(start), start)
        if character in "pP":
            return self.property_escape(start, negated=character == "P")
        if character.isalnum():
            self.invalid(f"unknown escape '\\{character}'", start)
        return CodePoints.single(character)

    def unicode_escape(self, start: int) -> int:
        if self.take("{"):
            end = self.text.find("}", self.position)
            digits = self.text[self.position : max(end, self.position)]
            self.position = end + 1
            return self.from_hexadecimal(digits, start)
        first = self.hexadecimal(4, start)
        # A pair of surrogates writes one code point.
        if 0xD800 <= first < 0xDC00 and self.take("\\u"):
            second = self.hexadecimal(4, start)
            if not 0xDC00 <= second < 0xE000:
                self.invalid("a high surrogate stands alone", start)
            return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        return first

    def property_escape(self, start: int, *, negated: bool) -> CodePoints:
        if not self.take("{"):
            self.invalid("'{' has to follow '\\p'", start)
        end = self.text.find("}", self.position)
        if end < 0:
            self.invalid("unmatched '{'", start)
        name = self.text[self.position : end]
        self.position = end + 1
        chars = general_category(name.removeprefix("gc=").removeprefix("General_Category="))
        if chars is None:
            self.unsupported(f"the property {name!r} (general categories are known)", start)
        return ~chars if negated else chars

    def code_point(self, value: int, start: int) -> CodePoints:
        if value > MAX_CODE_POINT:
            self.invalid(f"{value:#x} is no code point", start)
        if 0xD800 <= value < 0xE000:
            self.invalid(f"{value:#x} is a surrogate, which no text holds alone", start)
        return CodePoints.of([(value, value)])

    def hexadecimal(self, count: int, start: int) -> int:
        digits = self.text[self.position : self.position + count]
        self.position += count
        if len(digits) < count:
            self.invalid(f"{count} hexadecimal digits have to follow", start)
        return self.from_hexadecimal(digits, start)

    def from_hexadecimal(self, digits: str, start: int) -> int:
        if not digits or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            self.invalid(f"{digits!r} is not hexadecimal", start)
        return int(digits, 16)

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


def _is_single(chars: CodePoints) -> bool:
    return len(chars.ranges) == 1 and chars.ranges[0][0] == chars.ranges[0][1]
