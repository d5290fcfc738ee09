"""Numbers that fit formulas: as blocks, and the shortest of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from decimal import Decimal
from typing import Final

from guided.json_schema.formulas.assertions import Bound, NumberChoices, Numbers
from guided.json_schema.formulas.formula import (
    FALSE,
    AllOf,
    Formula,
    Formulas,
    Leaf,
    Not,
    evaluate,
    leaves_of,
)
from guided.json_schema.formulas.number_spellings import exact_text, shortest_spellings
from guided.json_schema.formulas.number_tables import HOLDS
from guided.json_schema.formulas.numbers import (
    digit_limit,
    holds,
    is_narrowed,
    number_dfa,
    number_verdicts,
)
from guided.json_schema.machine.scalar_blocks import (
    ONLY_REQUIRED,
    REQUIRED,
    Signatures,
    TruthLabels,
    is_endless,
    shared_block,
    without_listed_choices,
)
from guided.machine.block import Block, block_of
from guided.regular.byte_dfa import byte_dfa_from_dfa
from guided.regular.dfa import DEAD, Dfa, combine
from guided.regular.utf8 import utf8_sequences
from guided.spec import JsonOptions

__all__ = ["NumberRules"]


class NumberRules:
    """The rules of numbers.

    All formulas are over assertions about numbers. Numbers that cannot be spelled without the bytes
    ``missing``, which no token of the vocabulary has, are left out of blocks.
    """

    def __init__(
        self,
        formulas: Formulas,
        options: JsonOptions,
        missing: frozenset[int],
        signatures: Signatures,
    ) -> None:
        self.formulas: Final = formulas
        self.options: Final = options
        self.missing: Final = missing
        self._signatures: Final = signatures
        self._endless: dict[Formula, bool] = {}

    def fits(self, ask: Formula, value: Decimal) -> bool:
        """Return whether one number fits a formula over assertions about numbers."""
        return evaluate(ask, lambda leaf: holds(_about_numbers(leaf), value))

    def block(self, asks: tuple[Formula, ...], truths: frozenset[int]) -> Block | None:
        """Return the spellings of numbers that have some truth vectors; ``None`` if there are none.

        Results are kept for the whole process: other schemas get the same block, so it must not be
        changed. ``key`` has to contain all that ``_new_block`` depends on.
        """
        digits = (self.options.spelling, self.options.max_number_digits, self.missing)
        key = ("number", digits, tuple(map(self._signatures.of, asks)), truths)
        return shared_block(key, lambda: self._new_block(asks, truths, key))

    def _new_block(
        self, asks: tuple[Formula, ...], truths: frozenset[int], key: Hashable
    ) -> Block | None:
        """Compute ``block`` for a new key.

        Its labels are indices in ``verdicts``, which has the truth vectors.
        """
        judged, found = self._numbers(asks, truths)
        dfa = byte_dfa_from_dfa(judged, utf8_sequences, self.missing)
        return block_of(dfa, key=key, verdicts=tuple(found)) if len(dfa) else None

    def _numbers(
        self, asks: tuple[Formula, ...], truths: frozenset[int] | None
    ) -> tuple[Dfa, list[int]]:
        """Return an automaton of numbers with some truth vectors, or all, and each label's vector.

        A label is an index in the list. ``combine`` fills the list while it makes the automaton, so
        it has only vectors that some number has.
        """
        merged = tuple(_merged_numbers(ask, self.formulas) for ask in asks)
        leaves = leaves_of(merged)
        abouts = [_about_numbers(leaf) for leaf in leaves] or [Numbers()]
        # Other assertions may ask for a number of which one assertion asks many digits.
        digits = digit_limit(abouts, self.options.max_number_digits)
        if len(leaves) == 1 and merged == (leaves[0],) and truths == ONLY_REQUIRED:
            return number_dfa(abouts[0], self.options.spelling, digits), [REQUIRED]
        judge = TruthLabels(leaves, merged, truths)
        dfas = [number_verdicts(about, self.options.spelling, digits) for about in abouts]

        def decide(labels: tuple[int, ...]) -> int:
            # One of the automata leaves such numbers out (``number_verdicts``), so they are left
            # out.
            return DEAD if DEAD in labels else judge([label == HOLDS for label in labels])

        return combine(dfas, decide), judge.found

    def truths(self, asks: tuple[Formula, ...]) -> list[int]:
        """Return all truth vectors that numbers can have."""
        return self._numbers(asks, None)[1]

    def is_narrowed(self, ask: Formula) -> bool:
        """Return whether numbers that fit are left out for more than digits and spellings."""
        merged = _merged_numbers(ask, self.formulas)
        return any(is_narrowed(_about_numbers(leaf)) for leaf in leaves_of((merged,)))

    def are_endless(self, ask: Formula) -> bool:
        """Return whether infinitely many numbers fit, not counting that each has many spellings.

        Numbers that are forbidden one by one are removed first: there are finitely many, and
        without them the automaton is small.
        """
        ask, _ = without_listed_choices(ask, self.formulas, NumberChoices)
        found = self._endless.get(ask)
        if found is None:
            found = ask is not FALSE and self._find_endless(ask)
            self._endless[ask] = found
        return found

    def _find_endless(self, ask: Formula) -> bool:
        """Decide ``are_endless`` by an automaton with one spelling for each number.

        Other spellings are left out, as even one number has infinitely many.
        """
        fitting, _ = self._numbers((ask,), ONLY_REQUIRED)
        different = combine(
            [fitting, shortest_spellings()], lambda labels: DEAD if DEAD in labels else HOLDS
        )
        return is_endless(byte_dfa_from_dfa(different, utf8_sequences, self.missing).next)

    def shortest(self, ask: Formula) -> bytes | None:
        """Return a JSON number that fits, close to the shortest; ``None`` if there is none.

        What is guessed without an automaton may be longer than the shortest. Making an automaton
        may raise LimitExceededError.
        """
        if ask is FALSE:
            return None
        # The automaton may lack numbers that fit a narrowed formula.
        text = None if self.is_narrowed(ask) else self._guessed(ask)
        if text is None and (block := self.block((ask,), ONLY_REQUIRED)) is not None:
            text = block.shortest()
        return text

    def _guessed(self, ask: Formula) -> bytes | None:
        """Return a number that fits, without an automaton; ``None`` if none is found."""
        others, banned = without_listed_choices(ask, self.formulas, NumberChoices)
        if banned:
            # Of one more number than are forbidden, one is not forbidden. If the first such number
            # does not fit, the guess was wrong.
            for number in range(len(banned) + 1):
                text = b"%d" % number
                if number not in banned and self.missing.isdisjoint(text):
                    if self.fits(others, Decimal(number)):
                        return text
                    break
        # Zero and the neighbours of bounds nearly always include the shortest: no automaton then.
        guesses = (Decimal(0), *_landmarks(ask))
        for text in sorted({exact_text(g).encode() for g in guesses}, key=lambda t: (len(t), t)):
            value = Decimal(text.decode())
            if self.missing.isdisjoint(text) and self.fits(ask, value):
                return text
        return None


def _about_numbers(leaf: Leaf) -> Numbers | NumberChoices:
    assert isinstance(leaf.assertion, Numbers | NumberChoices), leaf
    return leaf.assertion


def _merged_numbers(ask: Formula, formulas: Formulas) -> Formula:
    """Return the formula with all ranges that must hold joined into one, where they join simply.

    Two divisors are not joined. One assertion is one automaton, several are a product of them.
    """
    if not isinstance(ask, AllOf):
        return ask
    merged = Numbers()
    others: list[Formula] = []
    for part in ask.parts:
        about = _as_numbers(part)
        if about is not None and (merged.multiple_of is None or about.multiple_of is None):
            # The tighter bound of each side; of equal ones the strict one.
            low = max(
                (b for b in (merged.low, about.low) if b is not None),
                key=lambda b: (b.value, b.strict),
                default=None,
            )
            high = min(
                (b for b in (merged.high, about.high) if b is not None),
                key=lambda b: (b.value, not b.strict),
                default=None,
            )
            multiple = about.multiple_of if merged.multiple_of is None else merged.multiple_of
            merged = Numbers(
                integer=merged.integer or about.integer,
                literal=merged.literal or about.literal,
                low=low,
                high=high,
                multiple_of=multiple,
            )
        else:
            others.append(part)
    return formulas.all_of([formulas.leaf(merged), *others])


def _as_numbers(part: Formula) -> Numbers | None:
    """Return the single ``Numbers`` assertion that a part amounts to; ``None`` for any other part.

    A leaf of ``Numbers`` is itself, the negation of a single bound the opposite bound (not > 5 is
    <= 5). A negated integer, multiple or pair of bounds is no single assertion.
    """
    item = part.item if isinstance(part, Not) else part
    about = item.assertion if isinstance(item, Leaf) else None
    if not isinstance(about, Numbers) or item is part:
        return about if isinstance(about, Numbers) else None
    low, high = about.low, about.high
    if about == Numbers(low=low):
        return None if low is None else Numbers(high=Bound(low.value, not low.strict))
    if about == Numbers(high=high):
        return None if high is None else Numbers(low=Bound(high.value, not high.strict))
    return None


def _landmarks(ask: Formula) -> Iterator[Decimal]:
    """Yield numbers that a formula mentions, and their neighbours.

    They are guesses: where none of them fits, an automaton finds what fits.
    """
    for leaf in leaves_of((ask,)):
        about = leaf.assertion
        if isinstance(about, NumberChoices):
            yield from about.values
        elif isinstance(about, Numbers):
            for bound in (about.low, about.high):
                # Neighbours of larger ones are no longer among the shortest.
                if bound is not None and abs(bound.value) < 10**15:
                    whole = bound.value.to_integral_value()
                    yield from (bound.value, whole - 1, whole, whole + 1)
