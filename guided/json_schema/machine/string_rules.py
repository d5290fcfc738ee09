"""Strings that fit formulas: as blocks and as lists.

A *truth vector* says which of several formulas a string fits: bit ``i`` is for ``formulas[i]``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace
from typing import Final

from guided.json_schema.formulas.assertions import ANY_STRING, Length, StringChoices
from guided.json_schema.formulas.formula import (
    FALSE,
    TRUE,
    Formula,
    Formulas,
    Leaf,
    Not,
    SchemaNode,
    conjuncts,
    leaves_of,
    pack_truth_vector,
)
from guided.json_schema.machine.scalar_blocks import (
    ONLY_REQUIRED,
    REQUIRED,
    Signatures,
    json_literal,
    shared_block,
    split_forbidden_choices,
)
from guided.json_schema.machine.string_automata import (
    StringAutomata,
    add_quotes,
    choices_in,
    min_remaining_code_points,
    split_length_bounds,
    start_states,
)
from guided.json_schema.machine.texts_left import least_left
from guided.machine.block import Block
from guided.regular.byte_dfa import byte_dfa_from_dfa
from guided.regular.reachability import states_reaching_cycle
from guided.regular.utf8 import any_json_string_sequences, json_string_sequences
from guided.runtime.work_budget import spend, with_pauses
from guided.spec import JsonOptions, Spelling

__all__ = ["StringRules", "longest_listed_length"]

_MAX_LISTED: Final = 2_000
"""The most listed strings that become overlays on the states of others."""


class StringRules(StringAutomata):
    """The strings with certain truth vectors, as blocks or lists, and whether they are infinite.

    All formulas are over assertions about strings. Listed strings and the names of members have
    their canonical spelling, however others are spelled. ``unavailable_bytes`` are those that no
    token of the vocabulary has: blocks leave out strings that need one, and callers of lists do.
    """

    def __init__(
        self,
        formulas: Formulas,
        options: JsonOptions,
        unavailable_bytes: frozenset[int],
        max_string_start: int,
        signatures: Signatures,
    ) -> None:
        """``max_string_start`` is explained at ``RecognizerLimits``."""
        super().__init__(formulas)
        self.options: Final = options
        self.unavailable_bytes: Final = unavailable_bytes
        self._max_string_start: Final = max_string_start
        self._signatures: Final = signatures
        self._num_left: dict[Formula, float] = {}
        """The results of ``_count_left``."""

    # --- which strings fit ----------------------------------------------------------------

    def list_with_vectors(
        self, formulas: tuple[Formula, ...], truth_vectors: Collection[int]
    ) -> list[tuple[str, int]] | None:
        """Return all strings with one of ``truth_vectors``, and their vectors, if all are listed.

        ``None`` if a string with one of them may be in no list. There is at least one vector; for a
        single formula it is REQUIRED alone, or the result is ``None``.
        """
        texts: dict[str, None] = {}
        # One bit for each formula whose strings are all listed: a string with one of these bits in
        # its truth vector is in a list.
        listed_bits = 0
        for bit, formula in enumerate(formulas):
            listed = [] if formula is FALSE else self.list_strings(formula)
            if listed is not None:
                listed_bits |= 1 << bit
                texts.update(dict.fromkeys(with_pauses(listed)))
        if not listed_bits or not all(truth_vector & listed_bits for truth_vector in truth_vectors):
            return None
        if len(formulas) == 1:
            return [(text, REQUIRED) for text in with_pauses(texts)]
        with_vectors = [
            (text, pack_truth_vector(self.fits(formula, text) for formula in formulas))
            for text in with_pauses(texts)
        ]
        return [
            (text, truth_vector)
            for text, truth_vector in with_pauses(with_vectors)
            if truth_vector in truth_vectors
        ]

    def list_strings(self, formula: Formula) -> list[str] | None:
        """Return all strings that fit a formula, if a conjunct lists candidates; else ``None``.

        In the order of the shortest list, in a new list. Strings that need ``unavailable_bytes``
        are among them.
        """
        lists: list[tuple[str, ...]] = []
        others: list[Formula] = []
        banned: set[str] = set()
        for part in conjuncts(formula):
            if (values := choices_in(part)) is not None:
                lists.append(values)
            elif isinstance(part, Not) and (values := choices_in(part.item)) is not None:
                banned.update(values)
            else:
                others.append(part)
        if not lists:
            return None
        listed = min(lists, key=len)
        common = set(with_pauses(listed))
        for values in lists:
            if values is not listed:
                common.intersection_update(with_pauses(values))
        rest = self.formulas.all_of(others)
        return [
            text
            for text in with_pauses(listed)
            if text in common and text not in banned and self.fits(rest, text)
        ]

    def split_listed(
        self, formulas: tuple[Formula, ...]
    ) -> tuple[tuple[Formula, ...], dict[str, int]]:
        """Return the formulas for strings that no assertion lists, and the vectors of listed ones.

        Returns ``formulas`` and no strings where ``overlay_strings`` must not be used: if too many
        are listed, if one cannot be spelled, or if one is as long as a bound allows, as the count
        then ends what the automaton lets continue.
        """
        texts: dict[str, None] = {}
        for leaf in leaves_of(formulas):
            if isinstance(leaf.assertion, StringChoices):
                texts.update(dict.fromkeys(leaf.assertion.values))
        if not texts or len(texts) > _MAX_LISTED:
            return formulas, {}

        def unlisted(node: Leaf | SchemaNode) -> Formula:
            assert isinstance(node, Leaf), node
            return FALSE if isinstance(node.assertion, StringChoices) else node

        others = tuple(self.formulas.replace(formula, unlisted) for formula in formulas)
        longest = max(map(len, texts))
        bounds = [self.options.max_string_length]
        bounds += [
            leaf.assertion.high for leaf in leaves_of(others) if isinstance(leaf.assertion, Length)
        ]
        if any(bound is not None and longest >= bound for bound in bounds):
            return formulas, {}
        if not all(self.unavailable_bytes.isdisjoint(json_literal(text)) for text in texts):
            return formulas, {}
        return others, {
            text: pack_truth_vector(self.fits(formula, text) for formula in formulas)
            for text in texts
        }

    def num_left(self, formula: Formula) -> float:
        """Return how many strings that fit are left, however a token begins one, at least.

        Very many for up to 30 characters of any kind, and one for ``^(x|a+)$``: only one begins
        with ``x``. A token begins a string after another with at most ``max_string_start`` bytes.
        """
        others, forbidden = split_forbidden_choices(formula, self.formulas, StringChoices)
        if others not in self._num_left:
            self._num_left[others] = self._count_left(others)
        return self._num_left[others] - len(forbidden)

    def _count_left(self, formula: Formula) -> float:
        """Compute ``num_left`` by automata."""
        if self.list_strings(formula) is not None:
            return 0
        (content,), (low, high) = split_length_bounds(formula, self.formulas)
        # A bound of the options may be raised as strings are forbidden (``_bounded_block``), which
        # adds strings and takes none.
        bounds = low, self.options.max_string_length if high is None else high
        return least_left(self.formula_dfa(content), bounds, self._max_string_start)

    def in_one_spelling(self, formula: Formula) -> Formula:
        """Return the formula of the same strings, in their canonical spelling alone."""
        return self.formulas.all_of([formula, self.formulas.leaf(ANY_STRING)])

    # --- blocks ---------------------------------------------------------------------------

    def block(self, formulas: tuple[Formula, ...], truth_vectors: frozenset[int]) -> Block | None:
        """Return the block of the JSON strings whose truth vector is one of ``truth_vectors``.

        ``None`` if there are none. It is cached for the whole process (``shared_block``) and must
        not be changed. Raises LimitExceededError for an automaton that grows too large.
        """
        key = (
            "string",
            self._spelling_key,
            tuple(map(self._signatures.of, formulas)),
            truth_vectors,
        )
        return shared_block(key, lambda: self._new_block(formulas, truth_vectors))

    @property
    def _spelling_key(self) -> Hashable:
        """All that blocks depend on besides formulas and truth vectors."""
        return (self.options.spelling, self.options.max_string_length, self.unavailable_bytes)

    def _new_block(
        self, formulas: tuple[Formula, ...], truth_vectors: frozenset[int]
    ) -> Block | None:
        """Compute ``block``."""
        longest = longest_listed_length(formulas)
        formulas, (low, high) = self._split_counted_bounds(formulas, truth_vectors)
        # Most strings of most schemas: free except for their length.
        if formulas == (TRUE,) and high is not None:
            return self._length_block(low, high)
        return self._bounded_block(formulas, truth_vectors, (low, high), longest)

    def _split_counted_bounds(
        self, formulas: tuple[Formula, ...], truth_vectors: frozenset[int]
    ) -> tuple[tuple[Formula, ...], tuple[int, int | None]]:
        """Return the formulas without bounds on the length that can be counted, and these bounds.

        Rows count code points against the bounds outside the automaton (columns LOW, HIGH), which
        saves states for each length. Only those of a single formula that has to hold can be.
        """
        if len(formulas) != 1 or truth_vectors != ONLY_REQUIRED:
            return formulas, (0, None)
        others, (low, high) = split_length_bounds(formulas[0], self.formulas)
        if low and others != (TRUE,):
            # Completions reach a counted least length with any letters, which ^(ab)*$ would not
            # allow: where more is asked, the automaton itself counts the least length.
            least = self.formulas.leaf(Length(low, None))
            return (self.formulas.all_of([*others, least]),), (0, high)
        return others, (low, high)

    def _length_block(self, low: int, high: int) -> Block | None:
        """Return the block of all strings of ``low`` to ``high`` code points; ``None`` for none.

        One automaton is shared by all bounds.
        """
        # The key lacks ``high``, on which only ``bounds`` depends; the copy below has its own.
        block = shared_block(
            ("counted", self._spelling_key),
            lambda: self._bounded_block((TRUE,), ONLY_REQUIRED, (0, high), -1),
        )
        if block is None or low > high:
            return None
        distance = block.distance.copy()
        # The shortest text grows by the least length.
        distance[start_states(block)] += low
        return replace(block, distance=distance, bounds=(low, high))

    def _bounded_block(
        self,
        formulas: tuple[Formula, ...],
        truth_vectors: frozenset[int],
        bounds: tuple[int, int | None],
        longest: int,
    ) -> Block | None:
        """Return the block of strings with some truth vectors; ``None`` if there are none.

        Their code points are counted outside the automaton if there are ``bounds``, or if the
        options set one. ``longest`` is the length of the longest string that assertions list, -1
        for none.
        """
        low, high = bounds
        dfa, vectors = self._build_dfa(formulas, truth_vectors)
        any_spelling = self._takes_any_spelling(formulas)
        sequences = any_json_string_sequences if any_spelling else json_string_sequences
        content = byte_dfa_from_dfa(dfa, sequences, self.unavailable_bytes)
        if not len(content):
            return None
        min_remaining = min_remaining_code_points(content)
        if high is not None and max(low, int(min_remaining[0])) > high:
            return None
        bound = self.options.max_string_length if high is None else high
        is_schema_bound = high is not None
        only_lengths = _has_only_lengths(formulas)
        if only_lengths and not is_schema_bound and not states_reaching_cycle(content.next).any():
            bound = None  # the automaton counts bounds of the schema, as alternatives have them
        block = add_quotes(
            content,
            min_remaining,
            (low, bound),
            tuple(vectors),
            is_schema_bound=is_schema_bound,
        )
        if bound is None or is_schema_bound or block.min_remaining is None:
            return block
        # The bound of the options must not make a string of the schema impossible. All that are
        # listed may be forbidden or taken, so one longer string is left to choose; and twice the
        # shortest leaves a choice where a pattern makes it long. Under a least length that is over
        # the bound, only strings of that length are left.
        bound = max(bound, 2 * int(block.min_remaining[0]), low, longest + 1)
        return replace(block, bounds=(low, bound))

    def _takes_any_spelling(self, formulas: tuple[Formula, ...]) -> bool:
        """Return whether strings may be spelled in any way: not under a pattern or a list."""
        return self.options.spelling is Spelling.ANY and _has_only_lengths(formulas)


def _has_only_lengths(formulas: tuple[Formula, ...]) -> bool:
    return all(isinstance(leaf.assertion, Length) for leaf in leaves_of(formulas))


def longest_listed_length(formulas: Iterable[Formula]) -> int:
    """Return the length in code points of the longest string that assertions list.

    Lists under a negation count too; -1 without lists.
    """
    longest = -1
    for leaf in leaves_of(formulas):
        if isinstance(leaf.assertion, StringChoices):
            values = leaf.assertion.values
            spend(len(values) // 16)
            longest = max(longest, max(map(len, values)))
    return longest
