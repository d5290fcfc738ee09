"""The shortest strings that fit formulas."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection
from typing import Final

from guided.json_schema.formulas.assertions import Length, Matches, StringChoices
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Leaf
from guided.json_schema.machine.scalar_blocks import ONLY_REQUIRED, json_key, without_listed_choices
from guided.json_schema.machine.string_automata import without_length
from guided.json_schema.machine.string_rules import StringRules, longest_listed
from guided.regular.expression import short_match
from guided.runtime.fuel import with_pauses

__all__ = ["ShortestStrings"]

_MOST_ENDINGS: Final = 700
"""Endings tried besides one for each forbidden string."""


class ShortestStrings:
    """Finds a short string for a formula: in a list, by a guess that is checked, or in a block.

    Nothing is remembered here except in the blocks of ``StringRules``; ``ShortestValues`` keeps the
    result by formula.
    """

    def __init__(self, strings: StringRules) -> None:
        self._strings: Final = strings

    def least_length(self, ask: Formula) -> int:
        """Return how many code points every string that fits has, as far as a bound says so."""
        return without_length(ask, self._strings.formulas)[1][0]

    def shortest(self, ask: Formula) -> bytes | None:
        """Return a JSON string that fits, close to the shortest; ``None`` if there is none.

        What is guessed without an automaton may be longer than the shortest. Callers rely on the
        string fitting, and on ``None`` meaning that there is none. Building an automaton may raise
        LimitExceededError.
        """
        if ask is FALSE:
            return None
        listed = self._strings.listing(ask)
        if listed is not None:
            texts = [json_key(text) for text in with_pauses(listed)]
            missing = self._strings.missing
            texts = [text for text in with_pauses(texts) if missing.isdisjoint(text)]
            return min(with_pauses(texts), key=lambda text: (len(text), text), default=None)
        guess = self._guessed_string(ask)
        if guess is not None:
            return guess
        block = self._strings.block((ask,), ONLY_REQUIRED)
        if block is None:
            return None
        text = block.shortest()
        # A block whose length is counted outside it, from ``low`` on, takes any letters.
        low = block.bounds[0] if block.bounds is not None else 0
        return text if low == 0 else b'"' + self.filler * low + b'"'

    @property
    def filler(self) -> bytes:
        """A byte that is a character by itself."""
        return bytes(
            (next(b for b in b"a0 " + bytes(range(0x23, 0x5B)) if b not in self._strings.missing),)
        )

    def _guessed_string(self, ask: Formula) -> bytes | None:
        """Return a short string that fits, where it is obvious without an automaton, else ``None``.

        ``None`` does not mean that no string fits: the caller makes an automaton to find out.
        """
        if ord('"') in self._strings.missing:
            return None
        if ask is TRUE:
            return b'""'
        if isinstance(ask, Leaf) and isinstance(ask.assertion, Length):
            low, high = ask.assertion.low, ask.assertion.high
            return b'"' + self.filler * low + b'"' if high is None or low <= high else None
        others, banned = without_listed_choices(ask, self._strings.formulas, StringChoices)
        if banned:
            return self._guessed_other(ask, others, banned)
        (pattern,), (low, high) = without_length(ask, self._strings.formulas)
        if isinstance(pattern, Leaf) and isinstance(pattern.assertion, Matches):
            match = short_match(pattern.assertion.pattern)
            if (
                match is not None
                and low <= len(match)
                and (high is None or len(match) <= high)
                and not self._is_too_long(match, ask)
            ):
                text = json_key(match)
                return text if self._strings.missing.isdisjoint(text) else None
        return None

    def _guessed_other(
        self, ask: Formula, others: Formula, banned: Collection[str]
    ) -> bytes | None:
        """Return a string other than those that are forbidden, a few characters off the shortest.

        ``others`` is ``ask`` without what it forbids. ``None`` if the guesses do not fit.
        """
        text = self._guessed_string(others)
        if text is None:
            return None
        plain = json.loads(text)
        # A guess that is checked, since an automaton without thousands of strings is expensive.
        letters = [
            chr(byte) for byte in b"abcdefghijklmnopqrstuvwxyz" if byte not in self._strings.missing
        ]
        endings = itertools.chain.from_iterable(
            itertools.product(letters, repeat=size) for size in range(len(letters))
        )
        for ending in itertools.islice(endings, len(banned) + _MOST_ENDINGS):
            other = plain + "".join(ending)
            if self._is_too_long(other, ask):
                return None
            if other not in banned and self._strings.fits(others, other):
                return json_key(other)
        return None

    def _is_too_long(self, text: str, ask: Formula) -> bool:
        """Return whether a string is longer than the bound that holds if a schema sets none."""
        bound = self._strings.options.max_string_length
        return bound is not None and len(text) > max(bound, longest_listed((ask,)) + 1)
