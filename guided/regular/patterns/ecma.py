"""Parses patterns of ECMA-262 (section 22.2, Unicode mode) into ``Regular`` values.

Matching is over code points. Many schemas come from Rust and Python, so names of groups may be
written as there (``(?P<n>…)``), and flags for the whole pattern at its start (``(?i)``). Of what
browsers allow beyond the standard (annex B), whatever is unambiguous is accepted:
``\\-`` outside a class, ``[\\w-.]``, a bracket or brace that ends no class and bounds no repeat.
Back references are refused with their position: they are not regular.
"""

from __future__ import annotations

import re
from typing import Final

from guided.errors import LimitExceededError
from guided.regular.codepoints import ANY
from guided.regular.expression import (
    Alternate,
    Chars,
    Concat,
    End,
    Look,
    Regular,
    Repeat,
    Start,
    contains_end,
    one_character,
    word_boundary,
)
from guided.regular.patterns.character_classes import LINE_END, WORD
from guided.regular.patterns.ecma_characters import SET_NOTATION_HINT, CharacterReader
from guided.runtime.work_budget import spend

__all__ = ["MAX_GROUP_DEPTH", "MAX_PATTERN_LENGTH", "MAX_REPEAT", "parse_regex"]

MAX_PATTERN_LENGTH: Final = 20_000
"""Most characters of a pattern."""
MAX_GROUP_DEPTH: Final = 100
"""Most groups nested in each other; the parser and passes over expressions are recursive."""
MAX_REPEAT: Final = 20_000
"""The largest bound of a repeat."""

_QUANTIFIERS: Final[dict[str, tuple[int, int | None]]] = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
    "{": (0, None),  # its bounds follow
}
_DOT: Final = Chars(~LINE_END)
_ANY: Final = Chars(ANY)
_LOOK_AROUND: Final = {
    "?=": (True, False),
    "?!": (True, True),
    "?<=": (False, False),
    "?<!": (False, True),
}
"""Whether it looks ahead, and whether it is negative."""
_MODIFIERS: Final = re.compile("([a-z]*)(-?)([a-z]*)([:)])")
_UNFINISHED_MODIFIERS: Final = re.compile("[a-z]*-?[a-z]*$")
"""What follows the "(?" of a group with flags, and what is left of one where the pattern ends."""
_LEADING_FLAGS: Final = re.compile(r"\(\?([ims]+)\)")
"""Flags of the whole pattern, at its start."""
_START_OF_LINE: Final = Alternate((Start(), Look(Chars(LINE_END), ahead=False)))
_END_OF_LINE: Final = Alternate((End(), Look(Chars(LINE_END))))
"""``^`` and ``$`` with the flag m."""


def parse_regex(text: str, *, pointer: str | None = None) -> Regular:
    """Parse a pattern; ``pointer`` says in errors where it stands.

    ``text`` has no surrogate itself, as callers refuse those: only an escape can name one. Raises
    InvalidConstraintError, UnsupportedFeatureError or LimitExceededError.
    """
    if len(text) > MAX_PATTERN_LENGTH:
        raise LimitExceededError(
            f"the pattern has {len(text)} characters, more than {MAX_PATTERN_LENGTH}",
            limit=MAX_PATTERN_LENGTH,
            pointer=pointer,
            hint="say it with several patterns, or with several rules of a grammar",
        )
    parser = _Parser(text, pointer)
    while (flags := _LEADING_FLAGS.match(text, parser.position)) is not None:
        parser.flags |= set(flags[1])
        parser.position = flags.end()
    regular = parser.alternatives()
    if parser.position < len(text):
        parser.raise_invalid("unmatched ')'")
    return regular


class _Parser(CharacterReader):
    """A recursive-descent parser of the grammar in ECMA-262, section 22.2.1.

    Methods parse what their names say, from ``position`` on.
    """

    def __init__(self, text: str, pointer: str | None) -> None:
        super().__init__(text, pointer)
        self.depth = 0

    def alternatives(self) -> Regular:
        """Parse sequences separated by ``|``, up to a ')' or the end of the pattern."""
        options = [self.sequence()]
        while self.take("|"):
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Alternate(tuple(options))

    def sequence(self) -> Regular:
        """Parse terms up to a ``|``, a ')' or the end of the pattern."""
        parts: list[Regular] = []
        while self.position < len(self.text) and (character := self.peek()) not in "|)":
            parts.append(self.term(character))
        return parts[0] if len(parts) == 1 else Concat(tuple(parts))

    def term(self, character: str) -> Regular:
        """Parse an assertion, or an atom with its quantifier, which begins with ``character``."""
        spend(1)
        start = self.position
        # Assertions are returned at once: in Unicode mode no quantifier may follow, and one that
        # does is refused as a separate term, which has nothing to repeat.
        if character == "\\" and self.text.startswith(("\\b", "\\B"), start):
            self.position += 2
            return word_boundary(self.apply_ignore_case(WORD), negative=self.text[start + 1] == "B")
        if character == "(":
            for prefix, (ahead, negative) in _LOOK_AROUND.items():
                if self.text.startswith(prefix, start + 1):
                    return self.look_around(prefix, ahead=ahead, negative=negative)
        self.position += 1
        if character == "^":
            return _START_OF_LINE if "m" in self.flags else Start()
        if character == "$":
            return _END_OF_LINE if "m" in self.flags else End()
        return self.with_quantifier(self.atom(character, start))

    def atom(self, character: str, start: int) -> Regular:
        """Parse what a quantifier may follow; ``character``, at ``start``, has been read."""
        match character:
            case ".":
                return _ANY if "s" in self.flags else _DOT
            case "(":
                return self.group(start)
            case "[":
                return Chars(self.character_class(start))
            case "\\":
                escaped = self.escape(start, in_class=False)
                if isinstance(escaped, int):
                    return self.literal_character(self.check_scalar(escaped, start))
                # ``\p{…}`` was not folded yet.
                return Chars(self.apply_ignore_case(escaped))
            case "*" | "+" | "?":
                self.raise_invalid(f"nothing to repeat before {character!r}", start)
            case "{" if self.is_bounds_next():
                self.raise_invalid("nothing to repeat before '{'", start)
            case "]" if self.has_bracket_in_class:
                # Perhaps meant as nested classes; without a '[' before it, it matches itself.
                self.raise_invalid("unmatched ']'", start, SET_NOTATION_HINT)
        return self.literal_character(ord(character))

    def literal_character(self, code_point: int) -> Chars:
        single = one_character(code_point)
        return Chars(self.apply_ignore_case(single.chars)) if "i" in self.flags else single

    def look_around(self, prefix: str, *, ahead: bool, negative: bool) -> Regular:
        """Parse look-around from its '(' on, which ``prefix`` follows, as ``?=``."""
        start = self.position
        self.position += 1 + len(prefix)
        item = self.group_body(start)
        # See ``guided.regular.lookaround``.
        if not ahead and negative and contains_end(item):
            self.raise_unsupported("'$' inside of a negative look-behind", start)
        return Look(item, ahead, negative)

    def group(self, start: int) -> Regular:
        """Parse a group, whose '(' at ``start`` has been read; names of groups are ignored."""
        if self.take("?"):
            if self.take("P<") or self.take("<"):
                self.group_name(start)
            elif not self.take(":"):
                return self.group_with_flags(start)
        return self.group_body(start)

    def group_name(self, start: int) -> None:
        """Parse the name of a group and its ``>``, in which ``\\u`` escapes stand for characters.

        Errors point to ``start``, where the group begins.
        """
        end = self.text.find(">", self.position)
        name = ""
        while self.position < end:
            here = self.position
            is_escape = self.take("\\u")
            name += chr(self.unicode_escape(here)) if is_escape else self.next()
        # ECMA-262 allows a dollar sign where Python allows an underscore.
        if not name.replace("$", "_").isidentifier():
            self.raise_invalid("the name of a group is not an identifier", start)
        self.position = end + 1

    def group_with_flags(self, start: int) -> Regular:
        """Parse a group that sets flags, as ``(?i-s:…)`` does, after its ``(?``."""
        found = _MODIFIERS.match(self.text, self.position)
        if found is None:
            if _UNFINISHED_MODIFIERS.match(self.text, self.position):
                self.raise_invalid("a group whose flags do not end in ':'", start)
            self.raise_unsupported("an extension of another dialect", start)
        on, minus, off, end = found.groups()
        if other := set(on + off) - set("ims"):
            self.raise_invalid(
                f"ECMA-262 knows no flag {min(other)!r} for a part of a pattern", start
            )
        if not on + off or len(set(on + off)) < len(on + off):
            self.raise_invalid(
                "each flag stands once, and one at least, before or after '-'", start
            )
        if end == ")":
            hint = f"write (?{on}{minus}{off}:…) around what it is for"
            fault = "flags for all that follows are switched on, and at the start alone"
            self.raise_invalid(fault, start, hint)
        self.position = found.end()
        outside = self.flags
        self.flags = (outside | set(on)) - set(off)
        inner = self.group_body(start)
        self.flags = outside
        return inner

    def group_body(self, start: int) -> Regular:
        """Parse a group to its ')'; its opening, from ``start`` on, has been read."""
        self.depth += 1
        if self.depth > MAX_GROUP_DEPTH:
            raise LimitExceededError(
                f"groups are nested deeper than {MAX_GROUP_DEPTH} at character {start}",
                limit=MAX_GROUP_DEPTH,
                pointer=self.pointer,
            )
        inner = self.alternatives()
        if not self.take(")"):
            self.raise_invalid("unmatched '('", start)
        self.depth -= 1
        return inner

    def with_quantifier(self, item: Regular) -> Regular:
        """Return ``item`` with the quantifier that follows it in the text, if one does."""
        start = self.position
        quantifier = self.text[start : start + 1]
        if quantifier not in _QUANTIFIERS:
            return item
        self.position += 1
        if quantifier == "{" and not self.is_bounds_next():
            self.position = start
            return item
        low, high = self.bounds(start) if quantifier == "{" else _QUANTIFIERS[quantifier]
        self.take("?")  # a lazy quantifier has the same language
        if self.position < len(self.text) and self.peek() in "*+?":
            self.raise_invalid("nothing to repeat: a quantifier follows a quantifier")
        return Repeat(item, low, high)

    def is_bounds_next(self) -> bool:
        """Return whether the text after a brace is ``n}``, ``n,}`` or ``n,m}``; reads nothing.

        Raises InvalidConstraintError for ``,}`` and ``,m}``, which other dialects take for bounds.
        """
        end = self.text.find("}", self.position)
        low, comma, high = self.text[self.position : max(end, self.position)].partition(",")
        if comma and not low and (not high or _is_number(high)):
            self.raise_invalid("the bounds of a repeat begin with a number", self.position - 1)
        return _is_number(low) and (not high or _is_number(high)) and (bool(comma) or not high)

    def bounds(self, start: int) -> tuple[int, int | None]:
        """Parse the bounds after a brace at ``start``, which ``is_bounds_next`` has checked."""
        end = self.text.index("}", self.position)
        first, comma, last = self.text[self.position : end].partition(",")
        self.position = end + 1
        first, last = _without_zeros(first), _without_zeros(last)
        # By length first: Python takes long to parse numbers of very many digits, or refuses to.
        if max(len(first), len(last)) > len(str(MAX_REPEAT)):
            raise self.too_many_repeats_error(max(first, last, key=len)[:20], start)
        low = int(first)
        high = None if comma and not last else int(last or first)
        if high is not None and high < low:
            self.raise_invalid(f"the bounds {{{low},{high}}} are out of order", start)
        if max(low, high or 0) > MAX_REPEAT:
            raise self.too_many_repeats_error(str(max(low, high or 0)), start)
        return low, high

    def too_many_repeats_error(self, times: str, start: int) -> LimitExceededError:
        """Return the error for a bound at ``start``; ``times`` is its text, perhaps cut off."""
        return LimitExceededError(
            f"the pattern repeats {times} times at character {start}, more than {MAX_REPEAT}",
            limit=MAX_REPEAT,
            pointer=self.pointer,
        )


def _without_zeros(number: str) -> str:
    """Return a number without zeros in front; an empty text stays empty."""
    return number.lstrip("0") or number[-1:]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
