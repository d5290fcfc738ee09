"""Reads a pattern of another dialect, with its escapes and sets of characters."""

from __future__ import annotations

import re
import unicodedata
from typing import NoReturn

from guided.response_types.character_sets import (
    ASCII,
    PYTHON,
    RUST,
    CharacterSet,
    Dialect,
    escape_in_brackets,
    posix_class,
    property_name,
    property_set,
)

__all__ = ["ForeignPatternError", "PatternReader"]

_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_OPERATORS = ("&&", "--", "~~")


class ForeignPatternError(ValueError):
    """Raised for a pattern that ECMA-262 cannot express."""


class PatternReader:
    """The position in a pattern, with methods that read from there.

    ``flags`` determine what letters and white space mean at the position.
    """

    def __init__(self, pattern: str, *, is_python: bool) -> None:
        self.pattern = pattern
        self.position = 0
        self.is_python = is_python
        self.flags: frozenset[str] = frozenset()
        self.sure = True
        """Whether matches must be sure; inverted inside negative look-arounds."""

    @property
    def dialect(self) -> Dialect:
        if not self.is_python:
            return RUST
        return ASCII if "a" in self.flags else PYTHON

    def is_octal(self) -> bool:
        """Return whether the digits at the position are an octal escape of Python."""
        digits = self.pattern[self.position : self.position + 3]
        return digits[0] == "0" or re.fullmatch(r"[0-3][0-7][0-7]", digits) is not None

    def read_escape(self) -> int | CharacterSet:
        """Read what follows a backslash; returns a code point or a set of them."""
        character = self.take()
        if character in "dwsDWS":
            kind = character.lower()
            found = self.dialect.sets[kind]
            return found if character == kind else ~found
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character in "pP" and not self.is_python:
            return self._read_property(negated=character == "P")
        if character in "xuU":
            return self._read_code_point(character)
        if character == "N" and self.is_python and self.take_if("{"):
            return ord(unicodedata.lookup(self.until("}")))
        if character.isdigit() and self.is_python:
            self.position -= 1
            digits = re.compile("[0-7]{1,3}").match(self.pattern, self.position)
            if digits is None:
                self.refuse("a back reference")
            self.position = digits.end()
            return int(digits[0], 8)
        if character.isalnum():
            self.refuse(f"'\\{character}'")
        return ord(character)

    def _read_code_point(self, character: str) -> int:
        if not self.is_python and self.take_if("{"):
            return int(self.until("}"), 16)
        count = {"x": 2, "u": 4, "U": 8}[character]
        return int("".join(self.take() for _ in range(count)), 16)

    def _read_property(self, *, negated: bool) -> CharacterSet:
        name = self.until("}") if self.take_if("{") else self.take()
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name.lower() in ("c", "other"):
            found = property_set(("Cc", "Cf", "Co"))
        elif name.lower() in ("cn", "unassigned"):
            self.refuse("characters that are not assigned")
        else:
            found = property_set((property_name(name),))
        if "i" in self.flags:  # it also has the other cases of its letters
            found |= CharacterSet(maybe=r"\p{L}\p{M}\p{N}\p{S}")
        return ~found if negated else found

    # Sets of characters

    def read_bracket(self) -> CharacterSet:
        """Read the set in brackets, after the opening one."""
        negated = self.take_if("^")
        found = CharacterSet()
        is_first = True
        while is_first or not self.take_if("]"):
            if not self.is_python:
                if "x" in self.flags and self.skip_space():
                    continue
                operator = self.pattern[self.position : self.position + 2]
                if operator in _OPERATORS:
                    self.position += 2
                    found = self._read_set_operation(found, operator)
                    break
            found |= self._read_item(is_first=is_first)
            is_first = False
        if "i" in self.flags:
            found = CharacterSet(
                found.sure,
                found.maybe + self.dialect.unknown,
                found.sure_units,
                found.maybe_units,
            )
        return ~found if negated else found

    def _read_set_operation(self, left: CharacterSet, operator: str) -> CharacterSet:
        """Read the rest of a set operation, up to the bracket's end or the next operator."""
        right = CharacterSet()
        following = ""
        while not self.take_if("]"):
            following = self.pattern[self.position : self.position + 2]
            if following in _OPERATORS:
                break
            right |= self._read_item(is_first=False)
            following = ""
        if operator == "&&":
            left = left & right
        else:
            left = left - right if operator == "--" else (left - right) | (right - left)
        if following:
            self.position += 2
            return self._read_set_operation(left, following)
        return left

    def _read_item(self, *, is_first: bool) -> CharacterSet:
        if not self.is_python and self.take_if("[:"):
            return self._read_posix_class()
        if not self.is_python and self.take_if("["):
            return self.read_bracket()
        low = self._read_end_of_range(is_first=is_first)
        is_range = self.peek() == "-" and self.pattern[self.position + 1 : self.position + 2] != "]"
        if not self.is_python and self.pattern.startswith("--", self.position):
            is_range = False
        if isinstance(low, CharacterSet) or not is_range:
            return low if isinstance(low, CharacterSet) else self._range(low, low)
        self.position += 1
        high = self._read_end_of_range(is_first=False)
        if isinstance(high, CharacterSet) or high < low:
            self.refuse("a range without order")
        return self._range(low, high)

    def _read_end_of_range(self, *, is_first: bool) -> int | CharacterSet:
        character = self.take()
        if character == "\\":
            if self.is_python and self.take_if("b"):
                return 8
            return self.read_escape()
        if character == "]" and not is_first:
            self.refuse("a range without an end")
        return ord(character)

    def _range(self, low: int, high: int) -> CharacterSet:
        variants = self.dialect.case_variants_of_range(low, high) if "i" in self.flags else []
        low_text, high_text = escape_in_brackets(low), escape_in_brackets(high)
        content = low_text if low == high else f"{low_text}-{high_text}"
        return CharacterSet.of(content + "".join(map(escape_in_brackets, variants)))

    def _read_posix_class(self) -> CharacterSet:
        negated = self.take_if("^")
        name = self.until(":")
        content = posix_class(name)
        if content is None or not self.take_if("]"):
            self.refuse(f"the class {name!r}")
        found = CharacterSet.of(content)
        if "i" in self.flags and name in ("lower", "upper"):
            found = CharacterSet.of("A-Za-z\\u017f\\u212a")
        return ~found if negated else found

    # Reading

    def skip_space(self) -> bool:
        """Skip white space or a comment, as with the flag ``x``; returns whether there was any."""
        if self.peek().isspace():
            self.position += 1
            return True
        if self.take_if("#"):
            end = self.pattern.find("\n", self.position)
            self.position = len(self.pattern) if end < 0 else end
            return True
        return False

    def until(self, end: str) -> str:
        """Read up to a character, which is skipped; returns the text before it."""
        start = self.position
        while self.take() != end:
            pass
        return self.pattern[start : self.position - 1]

    def peek(self) -> str:
        """Return the next character, empty at the end."""
        return self.pattern[self.position : self.position + 1]

    def take(self) -> str:
        """Read a character; raises ForeignPatternError at the end."""
        character = self.peek()
        if not character:
            self.refuse("an unfinished expression")
        self.position += 1
        return character

    def take_if(self, text: str) -> bool:
        """Read a text if it comes next; returns whether it does."""
        taken = self.pattern.startswith(text, self.position)
        self.position += len(text) if taken else 0
        return taken

    def refuse(self, what: str) -> NoReturn:
        """Raise ForeignPatternError for ``what`` is at the position."""
        raise ForeignPatternError(
            f"the pattern {self.pattern!r} has {what} at character {self.position}, "
            "which JSON Schema's patterns cannot say"
        )
