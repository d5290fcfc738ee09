"""The shortest strings that fit formulas."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Collection
from typing import Final

from guided.json_schema.formulas.assertions import Length, Matches, StringChoices
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Leaf
from guided.json_schema.machine.scalar_blocks import (
    ONLY_REQUIRED,
    json_literal,
    split_forbidden_choices,
)
from guided.json_schema.machine.string_automata import split_length_bounds
from guided.json_schema.machine.string_rules import StringRules, longest_listed_length
from guided.regular.expression import short_match
from guided.runtime.work_budget import with_pauses

__all__ = ["ShortestStrings"]

_MAX_SUFFIXES: Final = 700
"""Suffixes tried in ``_guess_unforbidden``, besides one for each forbidden string."""


class ShortestStrings:
    """Finds a short string for a formula: in a list, by a guess that is checked, or in a block.

    ``ShortestValues`` caches the results.
    """

    def __init__(self, strings: StringRules) -> None:
        self._strings: Final = strings

    def min_length(self, formula: Formula) -> int:
        """Return the least length that a conjunct of the formula sets, in code points."""
        return split_length_bounds(formula, self._strings.formulas)[1][0]

    def shortest(self, formula: Formula) -> bytes | None:
        """Return a JSON string that fits, close to the shortest; ``None`` if there is none.

        Raises LimitExceededError for an automaton that grows too large.
        """
        if formula is FALSE:
            return None
        listed = self._strings.list_strings(formula)
        if listed is not None:
            texts = [json_literal(text) for text in with_pauses(listed)]
            unavailable = self._strings.unavailable_bytes
            texts = [text for text in with_pauses(texts) if unavailable.isdisjoint(text)]
            return min(with_pauses(texts), key=lambda text: (len(text), text), default=None)
        guess = self._guess(formula)
        if guess is not None:
            return guess
        block = self._strings.block((formula,), ONLY_REQUIRED)
        if block is None:
            return None
        text = block.shortest_text()
        # A block whose length is counted outside it, from ``low`` on, takes any letters.
        low = block.bounds[0] if block.bounds is not None else 0
        return text if low == 0 else b'"' + self.filler * low + b'"'

    @property
    def filler(self) -> bytes:
        """A byte that is a character of a string, and that the vocabulary has."""
        return bytes(
            (
                next(
                    b
                    for b in b"a0 " + bytes(range(0x23, 0x5B))
                    if b not in self._strings.unavailable_bytes
                ),
            )
        )

    def _guess(self, formula: Formula) -> bytes | None:
        """Return a short string that fits, if one is found without an automaton, else ``None``."""
        if ord('"') in self._strings.unavailable_bytes:
            return None
        if formula is TRUE:
            return b'""'
        if isinstance(formula, Leaf) and isinstance(formula.assertion, Length):
            low, high = formula.assertion.low, formula.assertion.high
            return b'"' + self.filler * low + b'"' if high is None or low <= high else None
        others, banned = split_forbidden_choices(formula, self._strings.formulas, StringChoices)
        if banned:
            return self._guess_unforbidden(formula, others, banned)
        (pattern,), (low, high) = split_length_bounds(formula, self._strings.formulas)
        if isinstance(pattern, Leaf) and isinstance(pattern.assertion, Matches):
            match = short_match(pattern.assertion.pattern)
            if (
                match is not None
                and low <= len(match)
                and (high is None or len(match) <= high)
                and len(match) <= self._most_characters(formula)
            ):
                text = json_literal(match)
                return text if self._strings.unavailable_bytes.isdisjoint(text) else None
        return None

    def _guess_unforbidden(
        self, formula: Formula, others: Formula, banned: Collection[str]
    ) -> bytes | None:
        """Return a string that fits ``others`` and is not ``banned``; ``None`` if no guess does.

        The two are ``split_forbidden_choices`` of ``formula``.
        """
        text = self._guess(others)
        if text is None:
            return None
        plain = json.loads(text)
        # Not by an automaton: one without thousands of strings is expensive.
        letters = [
            chr(byte)
            for byte in b"abcdefghijklmnopqrstuvwxyz"
            if byte not in self._strings.unavailable_bytes
        ]
        suffixes = itertools.chain.from_iterable(
            itertools.product(letters, repeat=size) for size in range(len(letters))
        )
        # Once: it looks at all that are banned, of which an array with unique items may have many.
        most = self._most_characters(formula)
        for suffix in itertools.islice(suffixes, len(banned) + _MAX_SUFFIXES):
            other = plain + "".join(suffix)
            if len(other) > most:
                return None
            if other not in banned and self._strings.fits(others, other):
                return json_literal(other)
        return None

    def _most_characters(self, formula: Formula) -> float:
        """Return the most characters of a guess: the bound that holds where a schema sets none.

        The block might refuse a longer one. A needlessly low bound only costs an automaton.
        """
        bound = self._strings.options.max_string_length
        return math.inf if bound is None else max(bound, longest_listed_length((formula,)) + 1)
