"""Numbers that fit formulas: as blocks, and the shortest of them.

A *truth vector* says which of several formulas a number fits: bit ``i`` is for ``formulas[i]``.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from guided.json_schema.formulas.number_spellings import exact_text
from guided.json_schema.formulas.number_tables import HOLDS
from guided.json_schema.formulas.numbers import (
    digit_limit,
    number_dfa,
    number_fits,
    number_verdicts,
    omits_multiples,
)
from guided.json_schema.machine.listed_values import ListedValues
from guided.json_schema.machine.scalar_blocks import (
    ONLY_REQUIRED,
    REQUIRED,
    Signatures,
    VectorLabels,
    shared_block,
    split_forbidden_choices,
)
from guided.machine.block import Block, make_block
from guided.regular.byte_dfa import byte_dfa_from_dfa
from guided.regular.dfa import DEAD, Dfa, combine
from guided.regular.utf8 import utf8_sequences
from guided.runtime.work_budget import with_pauses
from guided.spec import JsonOptions

__all__ = ["NumberRules"]


class NumberRules:
    """The numbers with certain truth vectors, as blocks; the shortest of them.

    All formulas are over assertions about numbers. Blocks leave out numbers that need one of
    the ``unavailable_bytes``, which no token of the vocabulary has, that have more digits than the
    options allow, or that the automata leave undecided (``formulas.numbers``).
    """

    def __init__(
        self,
        formulas: Formulas,
        options: JsonOptions,
        unavailable_bytes: frozenset[int],
        signatures: Signatures,
    ) -> None:
        self.formulas: Final = formulas
        self.options: Final = options
        self.unavailable_bytes: Final = unavailable_bytes
        self._signatures: Final = signatures
        self._listed = ListedValues()

    @property
    def nbytes(self) -> int:
        """About how many bytes the sets of listed numbers take."""
        return self._listed.nbytes

    def fits(self, formula: Formula, value: Decimal) -> bool:
        """Return whether one number fits a formula over assertions about numbers."""
        return evaluate(formula, lambda leaf: self._number_holds(leaf, value))

    def _number_holds(self, leaf: Leaf, value: Decimal) -> bool:
        """Return whether an assertion about numbers holds of one (``number_fits``)."""
        assertion = _number_assertion(leaf)
        if isinstance(assertion, NumberChoices):
            return self._listed.has(leaf, value)
        return number_fits(assertion, value)

    def block(self, formulas: tuple[Formula, ...], truth_vectors: frozenset[int]) -> Block | None:
        """Return the block of the numbers whose truth vector is one of ``truth_vectors``.

        ``None`` if there are none. The block is cached for the whole process (``shared_block``) and
        must not be changed. Raises LimitExceededError for an automaton that grows too large.
        """
        # With the formulas, all that ``_new_block`` depends on.
        options = (self.options.spelling, self.options.max_number_digits, self.unavailable_bytes)
        key = ("number", options, tuple(map(self._signatures.of, formulas)), truth_vectors)
        return shared_block(key, lambda: self._new_block(formulas, truth_vectors))

    def _new_block(
        self, formulas: tuple[Formula, ...], truth_vectors: frozenset[int]
    ) -> Block | None:
        """Compute ``block``."""
        numbers, vectors = self._build_dfa(formulas, truth_vectors)
        dfa = byte_dfa_from_dfa(numbers, utf8_sequences, self.unavailable_bytes)
        return make_block(dfa, truth_vectors=tuple(vectors)) if len(dfa) else None

    def _build_dfa(
        self, formulas: tuple[Formula, ...], truth_vectors: frozenset[int] | None
    ) -> tuple[Dfa, list[int]]:
        """Return an automaton of numbers with some truth vectors, and the vector of each label.

        ``truth_vectors`` of ``None`` means all. A label is an index in the list, which has only
        vectors that some number has, or REQUIRED alone. The automaton must not be changed.
        """
        merged = tuple(_merge_ranges(formula, self.formulas) for formula in formulas)
        leaves = leaves_of(merged)
        # Constants have no leaf, but still only numbers may be read; this label decides nothing.
        assertions = [_number_assertion(leaf) for leaf in leaves] or [Numbers()]
        # All automata have to read as many digits as the longest number in an assertion.
        digits = digit_limit(assertions, self.options.max_number_digits)
        # A shortcut without a product: the only label of ``number_dfa`` is 0, the first index.
        if len(leaves) == 1 and merged == (leaves[0],) and truth_vectors == ONLY_REQUIRED:
            return number_dfa(assertions[0], self.options.spelling, digits), [REQUIRED]
        label_of = VectorLabels(leaves, merged, truth_vectors)
        dfas = [
            number_verdicts(assertion, self.options.spelling, digits) for assertion in assertions
        ]

        def decide(labels: tuple[int, ...]) -> int:
            # Numbers that one of the automata leaves out (``number_verdicts``) are left out.
            return DEAD if DEAD in labels else label_of([label == HOLDS for label in labels])

        return combine(dfas, decide), label_of.vectors

    def possible_vectors(self, formulas: tuple[Formula, ...]) -> list[int]:
        """Return all truth vectors that numbers can have."""
        return self._build_dfa(formulas, None)[1]

    def omits_multiples(self, formula: Formula) -> bool:
        """Return whether automata may leave out numbers that fit and that the options allow.

        A needless ``True`` costs time, and makes it uncertain that no number fits.
        """
        merged = _merge_ranges(formula, self.formulas)
        return any(omits_multiples(_number_assertion(leaf)) for leaf in leaves_of((merged,)))

    def shortest(self, formula: Formula) -> bytes | None:
        """Return a JSON number that fits, close to the shortest; ``None`` if there is none.

        Raises LimitExceededError for an automaton that grows too large.
        """
        if formula is FALSE:
            return None
        # What the machine reads, it reads by the automaton, which may lack the guessed number.
        text = None if self.omits_multiples(formula) else self._guess(formula)
        if text is None and (block := self.block((formula,), ONLY_REQUIRED)) is not None:
            text = block.shortest_text()
        return text

    def _guess(self, formula: Formula) -> bytes | None:
        """Return a number that fits, without an automaton; ``None`` if none is found."""
        others, banned = split_forbidden_choices(formula, self.formulas, NumberChoices)
        if banned:
            # The first number from 0 on that is not forbidden; if it does not fit, guess on below.
            for number in range(len(banned) + 1):
                text = b"%d" % number
                if number not in banned and self.unavailable_bytes.isdisjoint(text):
                    if self.fits(others, Decimal(number)):
                        return text
                    break
        # Zero and the neighbours of bounds nearly always include the shortest: no automaton then.
        guesses = (Decimal(0), *_mentioned_numbers(formula))
        texts = {exact_text(guess).encode() for guess in with_pauses(guesses)}
        for text in sorted(texts, key=lambda t: (len(t), t)):
            value = Decimal(text.decode())
            if self.unavailable_bytes.isdisjoint(text) and self.fits(formula, value):
                return text
        return None


def _number_assertion(leaf: Leaf) -> Numbers | NumberChoices:
    assert isinstance(leaf.assertion, Numbers | NumberChoices), leaf
    return leaf.assertion


def _merge_ranges(formula: Formula, formulas: Formulas) -> Formula:
    """Return the formula with its ``Numbers`` conjuncts merged into one, but for further divisors.

    One assertion is one automaton, several are a product of them.
    """
    if not isinstance(formula, AllOf):
        return formula
    merged = Numbers()
    others: list[Formula] = []
    for part in formula.parts:
        assertion = _as_single_range(part)
        if assertion is not None and (merged.multiple_of is None or assertion.multiple_of is None):
            # The tighter bound of each side; of equal ones the strict one.
            low = max(
                (b for b in (merged.low, assertion.low) if b is not None),
                key=lambda b: (b.value, b.strict),
                default=None,
            )
            high = min(
                (b for b in (merged.high, assertion.high) if b is not None),
                key=lambda b: (b.value, not b.strict),
                default=None,
            )
            multiple = assertion.multiple_of if merged.multiple_of is None else merged.multiple_of
            merged = Numbers(
                integer=merged.integer or assertion.integer,
                by_spelling=merged.by_spelling or assertion.by_spelling,
                low=low,
                high=high,
                multiple_of=multiple,
            )
        else:
            others.append(part)
    return formulas.all_of([formulas.leaf(merged), *others])


def _as_single_range(part: Formula) -> Numbers | None:
    """Return a conjunct as a ``Numbers`` assertion; ``None`` if it is no single one.

    The negation of a single bound is the opposite bound: not > 5 is <= 5.
    """
    item = part.item if isinstance(part, Not) else part
    assertion = item.assertion if isinstance(item, Leaf) else None
    if not isinstance(assertion, Numbers) or item is part:
        return assertion if isinstance(assertion, Numbers) else None
    low, high = assertion.low, assertion.high
    if assertion == Numbers(low=low):
        return None if low is None else Numbers(high=Bound(low.value, not low.strict))
    if assertion == Numbers(high=high):
        return None if high is None else Numbers(low=Bound(high.value, not high.strict))
    return None


def _mentioned_numbers(formula: Formula) -> Iterator[Decimal]:
    """Yield guesses at the shortest number that fits: choices, bounds, short numbers around bounds.

    Some may not fit, and others may be missing: the caller checks each, and without one that fits
    it builds an automaton. Divisors are not among them.
    """
    for leaf in leaves_of((formula,)):
        assertion = leaf.assertion
        if isinstance(assertion, NumberChoices):
            yield from assertion.values
        elif isinstance(assertion, Numbers):
            for bound in (assertion.low, assertion.high):
                # Larger ones are left out: guesses have no exponent, so they would be long.
                if bound is not None and abs(bound.value) < 10**15:
                    yield bound.value
                    yield from _short_neighbours(bound.value)


def _short_neighbours(value: Decimal) -> Iterator[Decimal]:
    """Yield the integers around a number; if it is none, the numbers of up to three places too.

    The bounds of "above 0 and below 1" may be the floats next to these, of many digits.
    """
    for places in range(4 if value % 1 else 1):
        unit = Decimal(1).scaleb(-places)
        nearest = value.quantize(unit)
        yield from (nearest - unit, nearest, nearest + unit)
