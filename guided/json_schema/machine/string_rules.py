"""Strings that fit formulas: as blocks and as lists."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace
from typing import Final

from guided.json_schema.formulas.assertions import Length, StringChoices
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
    truth_vector,
)
from guided.json_schema.machine.scalar_blocks import (
    ONLY_REQUIRED,
    REQUIRED,
    Signatures,
    is_endless,
    json_key,
    shared_block,
    without_listed_choices,
)
from guided.json_schema.machine.string_automata import (
    StringAutomata,
    choices_in,
    code_points_left,
    quoted,
    start_states,
    without_length,
)
from guided.machine.block import Block
from guided.regular.byte_dfa import byte_dfa_from_dfa
from guided.regular.utf8 import any_json_string_sequences, json_string_sequences
from guided.runtime.fuel import with_pauses
from guided.spec import JsonOptions, Spelling

__all__ = ["StringRules", "longest_listed"]

_MOST_LISTED: Final = 2_000
"""Listed strings that are laid over the states of others one by one."""


class StringRules(StringAutomata):
    """The rules of strings.

    All formulas are over assertions about strings. Listed strings and the names of members keep
    their canonical spelling, however others are spelled. ``missing`` are bytes that no token of the
    vocabulary has: strings that need one are left out. Blocks are kept for the whole process, by
    all that they depend on.
    """

    def __init__(
        self,
        formulas: Formulas,
        options: JsonOptions,
        missing: frozenset[int],
        signatures: Signatures,
    ) -> None:
        super().__init__(formulas)
        self.options: Final = options
        self.missing: Final = missing
        self._signatures: Final = signatures
        self._endless: dict[Formula, bool] = {}

    # --- which strings fit ----------------------------------------------------------------

    def listed(
        self, asks: tuple[Formula, ...], truths: Collection[int]
    ) -> list[tuple[str, int]] | None:
        """Return the strings with one of the vectors, and that vector, if assertions list them.

        ``None`` if a string that has one of the truth vectors may not be in a list.
        """
        texts: dict[str, None] = {}
        # One bit for each ask whose strings are all listed: whatever has one of these bits in its
        # truth vector is in a list.
        bounded = 0
        for number, ask in enumerate(asks):
            listed = [] if ask is FALSE else self.listing(ask)
            if listed is not None:
                bounded |= 1 << number
                texts.update(dict.fromkeys(with_pauses(listed)))
        if not bounded or not all(truth & bounded for truth in truths):
            return None
        if len(asks) == 1:
            return [(text, REQUIRED) for text in with_pauses(texts)]
        judged = [
            (text, truth_vector(self.fits(ask, text) for ask in asks))
            for text in with_pauses(texts)
        ]
        return [(text, truth) for text, truth in with_pauses(judged) if truth in truths]

    def listing(self, ask: Formula) -> list[str] | None:
        """Return all strings that fit a formula, if an assertion lists candidates; else ``None``.

        In the order of the shortest of the lists. The list is new each time.
        """
        lists: list[tuple[str, ...]] = []
        others: list[Formula] = []
        banned: set[str] = set()
        for part in conjuncts(ask):
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

    def without_listed(
        self, asks: tuple[Formula, ...]
    ) -> tuple[tuple[Formula, ...], dict[str, int]]:
        """Return what is asked of strings that no assertion lists, and the vectors of listed ones.

        Returns no strings where one of them is as long as allowed, since the count then ends what
        seems endless to ``add_texts``; nor where one of them cannot be spelled.
        """
        texts: dict[str, None] = {}
        for leaf in leaves_of(asks):
            if isinstance(leaf.assertion, StringChoices):
                texts.update(dict.fromkeys(leaf.assertion.values))
        if not texts or len(texts) > _MOST_LISTED:
            return asks, {}

        def unlisted(node: Leaf | SchemaNode) -> Formula:
            assert isinstance(node, Leaf), node
            return FALSE if isinstance(node.assertion, StringChoices) else node

        others = tuple(self.formulas.replace(ask, unlisted) for ask in asks)
        longest = max(map(len, texts))
        bounds = [self.options.max_string_length]
        bounds += [
            leaf.assertion.high for leaf in leaves_of(others) if isinstance(leaf.assertion, Length)
        ]
        if any(bound is not None and longest >= bound for bound in bounds):
            return asks, {}
        if not all(self.missing.isdisjoint(json_key(text)) for text in texts):
            return asks, {}
        return others, {text: truth_vector(self.fits(ask, text) for ask in asks) for text in texts}

    def are_endless(self, ask: Formula) -> bool:
        """Return whether infinitely many strings fit and can be spelled.

        Strings that are forbidden one by one are ignored first: there are finitely many of them.
        """
        ask, _ = without_listed_choices(ask, self.formulas, StringChoices)
        if ask is TRUE:
            return True
        found = self._endless.get(ask)
        if found is None:
            found = ask is not FALSE and self._find_endless(ask)
            self._endless[ask] = found
        return found

    def _find_endless(self, ask: Formula) -> bool:
        """Decide ``are_endless`` by an automaton: whether it has a cycle.

        It is an automaton over bytes where the vocabulary lacks some (``missing``), which may cut
        cycles.
        """
        if self.listing(ask) is not None:
            return False
        dfa = self.formula_dfa(ask)
        if self.missing:
            return is_endless(byte_dfa_from_dfa(dfa, json_string_sequences, self.missing).next)
        return is_endless(dfa.next)

    # --- blocks ---------------------------------------------------------------------------

    def block(self, asks: tuple[Formula, ...], truths: frozenset[int]) -> Block | None:
        """JSON strings, with their quotes; ``None`` if there are none.

        ``asks`` are formulas over assertions about strings. Raises LimitExceededError for an
        automaton that grows too large. Results are kept for the whole process: other schemas get
        the same block, so it must not be changed. ``key`` has to contain all that ``_new_block``
        depends on.
        """
        key = ("string", self._spelled, tuple(map(self._signatures.of, asks)), truths)
        return shared_block(key, lambda: self._new_block(asks, truths, key))

    @property
    def _spelled(self) -> Hashable:
        return (self.options.spelling, self.options.max_string_length, self.missing)

    def _new_block(
        self, asks: tuple[Formula, ...], truths: frozenset[int], key: Hashable
    ) -> Block | None:
        """Compute ``block`` for a new key.

        The longest listed string is looked up before bounds are taken out of ``asks``, as it widens
        the bound of the options (``_block_within``).
        """
        longest = longest_listed(asks)
        asks, (low, high) = self._counted_bounds(asks, truths)
        # Most strings of most schemas: free except for their length.
        if asks == (TRUE,) and high is not None:
            return self._counted(low, high, key)
        return self._block_within(asks, truths, (low, high), longest, key)

    def _counted_bounds(
        self, asks: tuple[Formula, ...], truths: frozenset[int]
    ) -> tuple[tuple[Formula, ...], tuple[int, int | None]]:
        """Return what is left to ask, and the bounds on the length that are taken out of it.

        Rows count code points against these outside the automaton (LOW, HIGH), which saves a state
        for each length.
        """
        if len(asks) != 1 or truths != ONLY_REQUIRED:
            return asks, (0, None)
        others, (low, high) = without_length(asks[0], self.formulas)
        if low and others != (TRUE,):
            # What is owed of a counted length is filled up with any letters, which "ab" of ^(ab)*$
            # does not allow: where more is asked, the automaton itself counts the least length.
            least = self.formulas.leaf(Length(low, None))
            return (self.formulas.all_of([*others, least]),), (0, high)
        return others, (low, high)

    def _counted(self, low: int, high: int, key: Hashable) -> Block | None:
        """Strings for which only the length is asked: all of them are laid down alike.

        One block is made and kept for all bounds; those that it was made with are replaced.
        ``None`` if the bounds cross, or strings cannot be spelled.
        """
        alike = ("counted", self._spelled)
        block = shared_block(
            alike, lambda: self._block_within((TRUE,), ONLY_REQUIRED, (0, high), -1, alike)
        )
        if block is None or low > high:
            return None
        left = block.left.copy()
        # Nothing else differs between two lengths: the shortest text grows by the least length.
        left[start_states(block)] += low
        return replace(block, left=left, bounds=(low, high), key=key)

    def _block_within(
        self,
        asks: tuple[Formula, ...],
        truths: frozenset[int],
        bounds: tuple[int, int | None],
        longest: int,
        key: Hashable,
    ) -> Block | None:
        """Strings of some truth vectors whose code points are counted outside the automaton.

        ``longest`` is the length of the longest string that assertions list, -1 for none. ``None``
        if no string is left.
        """
        low, high = bounds
        dfa, found = self._judged(asks, truths)
        plain = all(isinstance(leaf.assertion, Length) for leaf in leaves_of(asks))
        freely = plain and self.options.spelling is Spelling.ANY
        sequences = any_json_string_sequences if freely else json_string_sequences
        content = byte_dfa_from_dfa(dfa, sequences, self.missing)
        if not len(content):
            return None
        need = code_points_left(content)
        if high is not None and max(low, int(need[0])) > high:
            return None
        bound = self.options.max_string_length if high is None else high
        is_firm = high is not None
        block = quoted(content, need, (low, bound), key, tuple(found), is_firm=is_firm)
        if bound is None or is_firm or block.min_remaining is None:
            return block
        # The bound of the options must not make a string of the schema impossible. All that are
        # listed may be forbidden or taken, so one longer string is left to choose; and twice the
        # shortest leaves a choice where it is long.
        bound = max(bound, 2 * int(block.min_remaining[0]), low, longest + 1)
        return replace(block, bounds=(low, bound))


def longest_listed(asks: Iterable[Formula]) -> int:
    """Return the number of code points of the longest string that assertions list.

    -1 for none. Lists under a negation count too.
    """
    return max(
        (
            len(text)
            for leaf in leaves_of(asks)
            if isinstance(leaf.assertion, StringChoices)
            for text in leaf.assertion.values
        ),
        default=-1,
    )
