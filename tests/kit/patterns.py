"""Small random patterns of Python's ``re`` and of ECMA-262, each with texts that nearly fit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from guided.spec import RegexDialect

__all__ = ["LETTERS", "Written", "random_pattern"]

LETTERS: Final = "abcABkKſsSßẞéÉıİiIµμσςΣǅ1٣_-@. \t\n\r\u2028"
"""Letters of every class, among them those with more than two cases."""

_CLASSES: Final = (r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", ".")
_ESCAPED: Final = (r"\n", r"\t", r"\x41", r"\u00e9", r"\.", r"\\")
_PLACES: Final = ("^", "$", r"\b", r"\B")
_REPEATS: Final = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{1,3}?", "{0}")
_MOST: Final = 12
_DEPTH: Final = 3

_PYTHON_ONLY: Final = (r"\101", r"\-", r"\N{MICRO SIGN}", r"\a", "(?#x)")
_ECMA_ONLY: Final = (
    *(r"\u{3c3}", r"\cJ", "[^]", "[]", r"\/", r"\p{L}", r"\P{Lu}", r"\p{Script=Greek}"),
    *(r"\p{scx=Latn}", r"\p{Alphabetic}", r"\P{ASCII}", r"\p{Changes_When_Casefolded}"),
    *(r"[^\P{Ll}]", r"[\p{Lu}\d]", r"[^\W\s]"),
)


class Written(NamedTuple):
    """A part of a pattern, and texts that it probably matches, found without a matcher."""

    pattern: str
    texts: tuple[str, ...]


def random_pattern(rng: random.Random, dialect: RegexDialect) -> Written:
    """A random pattern; its own dialect rarely refuses it."""
    maker = _Maker(rng, dialect)
    found = maker.choice(rng.randint(1, _DEPTH))
    if dialect is RegexDialect.PYTHON and rng.random() < 0.3:
        return Written(f"(?{rng.choice('imsa')}){found.pattern}", found.texts)
    return found


class _Maker:
    def __init__(self, rng: random.Random, dialect: RegexDialect) -> None:
        self.rng = rng
        self.is_python = dialect is RegexDialect.PYTHON

    def choice(self, depth: int) -> Written:
        options = [self.sequence(depth) for _ in range(self.rng.choice([1, 1, 1, 2, 3]))]
        texts = [text for option in options for text in option.texts]
        return Written("|".join(option.pattern for option in options), self.some(texts))

    def sequence(self, depth: int) -> Written:
        parts = [self.repeated(depth) for _ in range(self.rng.choice([0, 1, 1, 2, 2, 3, 4]))]
        return Written("".join(part.pattern for part in parts), self.joined(parts))

    def repeated(self, depth: int) -> Written:
        rng = self.rng
        if rng.random() < 0.08:
            places = (*_PLACES, r"\A", r"\Z") if self.is_python else _PLACES
            return Written(rng.choice(places), ("",))
        if depth and rng.random() < 0.12:
            return self.look_around(depth - 1)
        item = self.group(depth - 1) if depth and rng.random() < 0.35 else self.letter()
        if rng.random() < 0.6 or item.pattern.startswith("(?#"):
            return item
        sign = rng.choice(_REPEATS)
        longer = [self.joined([item] * rng.choice([0, 1, 2, 3])) for _ in range(2)]
        return Written(item.pattern + sign, self.some([text for texts in longer for text in texts]))

    def look_around(self, depth: int) -> Written:
        sign = self.rng.choice(["?=", "?!", "?<=", "?<!"])
        behind_of_one_length = self.is_python and "<" in sign
        inner = self.letter() if behind_of_one_length else self.choice(depth)
        return Written(f"({sign}{inner.pattern})", ("",))

    def group(self, depth: int) -> Written:
        inner = self.choice(depth)
        kind = self.rng.choice(["(", "(?:", "(?:", self.flags()])
        return Written(f"{kind}{inner.pattern})", inner.texts)

    def flags(self) -> str:
        """The beginning of a group in which flags are on or off."""
        on = self.rng.choice(["i", "i", "s", "m", "im", ""])
        off = self.rng.choice(["", "", "-s", "-m"]) if on == "i" else "" if on else "-i"
        if self.is_python and on and not off and self.rng.random() < 0.3:
            return f"(?a{on}:"
        return f"(?{on}{off}:"

    def letter(self) -> Written:
        rng = self.rng
        kind = rng.random()
        if kind < 0.45:
            letter = rng.choice(LETTERS)
            return Written(rf"\{letter}" if letter == "." else letter, (letter,))
        if kind < 0.6:
            pattern = rng.choice(_CLASSES)
        elif kind < 0.85:
            pattern = self.bracket()
        else:
            own = _PYTHON_ONLY if self.is_python else _ECMA_ONLY
            pattern = rng.choice((*_ESCAPED, *own, *own))
        # Some letter, which may be one of it.
        return Written(pattern, self.some([*LETTERS]))

    def bracket(self) -> str:
        items = [self.bracket_item() for _ in range(self.rng.choice([1, 1, 2, 3]))]
        return f"[{self.rng.choice(['', '', '^'])}{''.join(items)}]"

    def bracket_item(self) -> str:
        rng = self.rng
        if rng.random() < 0.3:
            return rng.choice(_CLASSES[:-1])
        first, last = sorted(rng.choices([*LETTERS, "z", "\u03ff"], k=2))
        if rng.random() < 0.5:
            last = first
        ends = [rf"\{end}" if end in "-^" else end for end in (first, last)]
        return ends[0] if first == last else "-".join(ends)

    def joined(self, parts: Sequence[Written]) -> tuple[str, ...]:
        made = ["".join(self.pick(part.texts) for part in parts) for _ in range(3)]
        return self.some(made)

    def pick(self, texts: Sequence[str]) -> str:
        return self.rng.choice(texts) if texts else ""

    def some(self, texts: Sequence[str]) -> tuple[str, ...]:
        few = texts if len(texts) <= 3 else self.rng.sample(texts, 3)
        return tuple(text[:_MOST] for text in few)
