"""Automata of JSON strings: lists of texts, quotes, code points counted outside an automaton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.json_schema.formulas.assertions import Assertion, Length, Matches, StringChoices
from guided.json_schema.formulas.formula import (
    Formula,
    Formulas,
    Leaf,
    conjuncts,
    evaluate,
    leaves_of,
)
from guided.json_schema.machine.listed_values import ListedValues
from guided.json_schema.machine.scalar_blocks import (
    ONLY_REQUIRED,
    REQUIRED,
    VectorLabels,
    pattern_dfa,
    split_forbidden_choices,
)
from guided.machine.block import (
    CLOSE_STRING,
    CODE_POINT_END,
    INSIDE,
    START,
    STOP,
    Block,
    make_block,
)
from guided.machine.block_kernels import find_nearest_labels
from guided.regular.byte_dfa import ByteDfa
from guided.regular.codepoints import CodePoints
from guided.regular.determinize import MAX_CELLS
from guided.regular.dfa import DEAD, Dfa, combine, length_dfa, too_many_states_error
from guided.regular.reachability import relax_code_points
from guided.regular.word_graph import without_texts
from guided.runtime.work_budget import pause_if_due, spend, with_pauses, without_gil

__all__ = [
    "StringAutomata",
    "add_quotes",
    "choices_dfa",
    "choices_in",
    "limit_path_code_points",
    "min_remaining_code_points",
    "split_length_bounds",
    "start_states",
]


_MAX_TRIE_CELLS: Final = 4 * MAX_CELLS
"""The most cells of the table of a trie, a node each by a letter; far fewer are left in bytes."""


def choices_dfa(values: Mapping[str, int], max_cells: int = _MAX_TRIE_CELLS) -> Dfa:
    """Return the automaton of some strings, each with its label: their trie.

    There has to be at least one, since every state of a ``Dfa`` must lead to acceptance. Labels are
    numbers from 0 on, never DEAD. Raises LimitExceededError for a table of more than ``max_cells``.
    """
    children: list[dict[str, int]] = [{}]
    label_by_node: dict[int, int] = {}
    for text, text_label in with_pauses(values.items()):
        node = 0
        for character in text:
            node = children[node].setdefault(character, len(children))
            if node == len(children):
                # Before it takes memory, also what its row of the table takes later.
                spend(4)
                children.append({})
        label_by_node[node] = text_label
    letters = sorted({letter for edges in children for letter in edges})
    column = {letter: i for i, letter in enumerate(letters)}
    num_cells = len(children) * len(letters)
    if num_cells > max_cells:
        raise too_many_states_error()
    spend(num_cells // 64)
    table = np.full((len(children), len(letters)), DEAD, dtype=np.int32)
    for node, edges in enumerate(with_pauses(children)):
        for letter, child in edges.items():
            table[node, column[letter]] = child
    label = np.full(len(children), DEAD, dtype=np.int32)
    label[list(label_by_node)] = list(label_by_node.values())
    return Dfa(tuple(map(CodePoints.single, letters)), table, label)


def listed_dfa(leaves: list[Leaf]) -> tuple[Dfa, list[tuple[int, ...]]]:
    """Return the automaton of all strings that some assertions list; it is to be combined.

    Also returns by label the indices of the assertions that hold; the last entry, at DEAD (-1), is
    for strings that none of them lists. Without any list the automaton is invalid and must not be
    used. Raises LimitExceededError where ``combine`` would, but before the table takes memory.
    """
    lists: dict[str, list[int]] = {}
    for index, leaf in enumerate(leaves):
        values = choices_in(leaf) or ()
        spend(len(values) // 8)
        for text in values:
            lists.setdefault(text, []).append(index)
    labels: dict[tuple[int, ...], int] = {}
    by_text = {text: labels.setdefault(tuple(held), len(labels)) for text, held in lists.items()}
    # A product has at least a state for each node of the trie, and a class for each letter.
    return choices_dfa(by_text, MAX_CELLS), [*labels, ()]


def choices_in(formula: Formula) -> tuple[str, ...] | None:
    """Return the strings that an assertion lists; ``None`` if it is no list."""
    if isinstance(formula, Leaf) and isinstance(formula.assertion, StringChoices):
        return formula.assertion.values
    return None


def split_length_bounds(
    formula: Formula, formulas: Formulas
) -> tuple[tuple[Formula], tuple[int, int | None]]:
    """Return a formula without its ``Length`` conjuncts, and the intersection of their bounds.

    The formula is in a tuple of one, as callers pass it on. An upper bound of ``None`` is none; the
    lower one may exceed the upper one.
    """
    low, high = 0, None
    others: list[Formula] = []
    for part in conjuncts(formula):
        if isinstance(part, Leaf) and isinstance(part.assertion, Length):
            low = max(low, part.assertion.low)
            if part.assertion.high is not None:
                high = part.assertion.high if high is None else min(high, part.assertion.high)
        else:
            others.append(part)
    return (formulas.all_of(others),), (low, high)


_CELLS: Final = 100_000
"""Cells of a table processed between two pauses."""


def min_remaining_code_points(content: ByteDfa) -> NDArray[np.int32]:
    """Return by state the fewest code points to an accepting one, counting an incomplete one.

    The first ``content.num_boundary_states`` states stand between two code points.
    """
    far = np.iinfo(np.int32).max // 2
    remaining = np.where(content.label != DEAD, 0, far).astype(np.int32)
    has_changed = True
    while has_changed:
        with without_gil(content.next.size // 200):
            has_changed = relax_code_points(content.next, content.num_boundary_states, remaining)
        spend(1 + content.next.size // 200)
    return remaining


def add_quotes(
    content: ByteDfa,
    content_remaining: NDArray[np.int32],
    bounds: tuple[int, int | None],
    truth_vectors: tuple[int, ...],
    *,
    is_schema_bound: bool,
) -> Block:
    """Return the block of a content between quotes, in which a quote only follows a backslash.

    State 0 reads the opening quote, content state ``s`` is ``s + 1``, and after these there is a
    closing state for each label. ``content_remaining`` is ``min_remaining_code_points`` of the
    content, ``is_schema_bound`` is as for ``limit_path_code_points``, and the other arguments are
    as for ``Block``.
    """
    num_states, num_classes = content.next.shape
    quote, start, end = ord('"'), 0, num_states + 1
    counts = bounds != (0, None)
    labels = np.unique(content.label[content.label != DEAD])
    byte_class = content.byte_class.copy()
    byte_class[quote] = num_classes  # a class of its own
    size = end + len(labels)
    # The opening quote begins a count; where the content loops to the state after the quote, that
    # state is also entered as a character ends, so it gets a twin that only the quote leads to.
    twin = size
    table = np.empty((size + counts, num_classes + 1), dtype=np.int32)
    table[start], table[end:] = DEAD, DEAD
    inner = table[1:end]
    # Some rows at a time, as there may be millions of cells.
    rows = 1 + _CELLS // (num_classes + 1)
    for first in range(0, num_states, rows):
        pause_if_due()
        some = slice(first, first + rows)
        piece, label = content.next[some], content.label[some]
        inner[some, :num_classes] = np.where(piece == DEAD, DEAD, piece + 1)
        after_escaped_quote = inner[some, content.byte_class[quote]]
        closing_state = end + np.searchsorted(labels, label)
        inner[some, num_classes] = np.where(label != DEAD, closing_state, after_escaped_quote)
    table[start, num_classes] = twin if counts else 1
    label = np.full(len(table), DEAD, dtype=np.int32)
    label[end:size] = labels
    count_event = np.full(len(table), INSIDE, dtype=np.int8)
    count_event[1 : 1 + content.num_boundary_states] = CODE_POINT_END
    count_event[start] = 0
    count_event[end:size] = CLOSE_STRING
    min_remaining = np.zeros(len(table), dtype=np.int32)
    min_remaining[start], min_remaining[1:end] = content_remaining[0], content_remaining
    if not counts:
        return make_block(ByteDfa(byte_class, table, label), truth_vectors=truth_vectors)
    table[twin], label[twin], count_event[twin], min_remaining[twin] = (
        table[1],
        label[1],
        START,
        min_remaining[1],
    )
    dfa = ByteDfa(byte_class, table, label)
    block = make_block(
        dfa,
        count_event=count_event,
        min_remaining=min_remaining,
        bounds=bounds,
        truth_vectors=truth_vectors,
    )
    block = limit_path_code_points(
        block, count_event == CODE_POINT_END, min_remaining, is_schema_bound=is_schema_bound
    )
    # A least count only comes with free content (``StringRules._split_counted_bounds``), whose
    # shortest path is empty: it lacks that many code points, of one byte each.
    block.distance[start_states(block)] += bounds[0]
    return block


def limit_path_code_points(
    block: Block,
    completes: NDArray[np.bool_],
    min_remaining: NDArray[np.int32],
    *,
    is_schema_bound: bool,
) -> Block:
    """Return the block with ``next_byte`` paths of as many code points as ``min_remaining`` says.

    The shortest path in bytes may have more code points than another: "aaa" beside "€€". With
    ``is_schema_bound``, a bound that the schema sets, every string within it is allowed: so
    ``min_remaining`` stays the fewest code points, and paths become the shortest in bytes among
    those with no more. Otherwise the bound is ``JsonOptions.max_string_length``, which may refuse
    some strings that are no longer than it: paths stay as they are, and ``min_remaining`` becomes
    the code points along them.

    ``min_remaining`` int32 is the one that the block has: by state, the fewest code points left.
    ``completes`` marks the states in which a code point is complete.
    """
    states, table = np.arange(len(block)), block.dfa.next
    leads_on = block.next_byte != STOP
    ahead = np.where(leads_on, table[states, block.dfa.byte_class[block.next_byte]], states)
    along = (leads_on & completes[ahead]).astype(np.int32)
    if np.array_equal(min_remaining, min_remaining[ahead] + along):
        return block
    if not is_schema_bound:
        # Sum along the paths by pointer doubling.
        while not np.array_equal(ahead, further := ahead[ahead]):
            pause_if_due()
            along += along[ahead]
            ahead = further
        return replace(block, min_remaining=along)
    fewest_only = np.empty_like(table)
    # Code points left before a state is entered. DEAD reads the last entry; its cell stays DEAD.
    through = min_remaining + completes
    rows = 1 + _CELLS // table.shape[1]
    for first in range(0, len(table), rows):
        pause_if_due()
        some = slice(first, first + rows)
        fewest = through[table[some]] == min_remaining[some, np.newaxis]
        fewest_only[some] = np.where(fewest, table[some], DEAD)
    with without_gil(table.size // 64):
        distance, next_byte, nearest_label, _, _ = find_nearest_labels(
            fewest_only, block.dfa.label, block.dfa.byte_class
        )
    # What a state allows, and where it exits, stays as it was: only the shortest way was limited.
    return replace(block, distance=distance, next_byte=next_byte, nearest_label=nearest_label)


def start_states(block: Block) -> list[int]:
    """Return the states of a counting block from which nothing was counted yet."""
    return [0, len(block) - 1]


_DFA_BYTES: Final = 1_000
"""About how many bytes an automaton takes, however small."""


class StringAutomata:
    """The automata of the strings that fit formulas.

    They read the content of strings: code points, without quotes and escapes. Those of assertions
    are cached as long as this object, and must not be changed.
    """

    def __init__(self, formulas: Formulas) -> None:
        self.formulas: Final = formulas
        self._dfas: dict[Leaf, Dfa] = {}
        """The automaton of each assertion about strings."""
        self._listed = ListedValues()

    @property
    def nbytes(self) -> int:
        """About how many bytes the automata and the sets of listed strings take."""
        # Copied first: another thread may add automata meanwhile.
        automata = [_DFA_BYTES + dfa.next.nbytes for dfa in list(self._dfas.values())]
        return sum(automata) + self._listed.nbytes

    def fits(self, formula: Formula, text: str) -> bool:
        """Return whether one string fits a formula over assertions about strings."""
        return evaluate(formula, lambda leaf: self._string_holds(leaf, text))

    def _string_holds(self, leaf: Leaf, text: str) -> bool:
        """Return whether an assertion about strings holds of one, as ``_build_leaf_dfa`` says."""
        assertion = leaf.assertion
        if isinstance(assertion, StringChoices):
            return self._listed.has(leaf, text)
        if isinstance(assertion, Length):
            return assertion.low <= len(text) and (
                assertion.high is None or len(text) <= assertion.high
            )
        assert isinstance(assertion, Matches), assertion
        return self.leaf_dfa(leaf).accepts(text)

    def leaf_dfa(self, leaf: Leaf) -> Dfa:
        """Return the automaton of the strings that fit one assertion; it must not be changed."""
        found = self._dfas.get(leaf)
        if found is None:
            found = self._dfas[leaf] = self._build_leaf_dfa(leaf.assertion)
        return found

    def _build_leaf_dfa(self, assertion: Assertion) -> Dfa:
        """Compute ``leaf_dfa``; all accepting states have the label 0, as ``_build_dfa`` relies on.

        ``_string_holds`` says the same of one text.
        """
        if isinstance(assertion, Matches):
            return pattern_dfa(assertion.pattern)
        if isinstance(assertion, Length):
            return length_dfa(assertion.low, assertion.high)
        assert isinstance(assertion, StringChoices), assertion
        return choices_dfa(dict.fromkeys(assertion.values, 0))

    def formula_dfa(self, formula: Formula) -> Dfa:
        """Return the automaton of the strings that fit a formula."""
        return self._build_dfa((formula,), ONLY_REQUIRED)[0]

    def possible_vectors(self, formulas: tuple[Formula, ...]) -> list[int]:
        """Return all truth vectors that strings can have."""
        return self._build_dfa(formulas, None)[1]

    def _build_dfa(
        self, formulas: tuple[Formula, ...], truth_vectors: frozenset[int] | None
    ) -> tuple[Dfa, list[int]]:
        """Return an automaton of strings with some truth vectors, and the vector of each label.

        ``truth_vectors`` of ``None`` means all. A label is an index in the list, which has only
        vectors that some string has; for ONLY_REQUIRED it may have REQUIRED where no string fits.
        The automaton must not be changed.
        """
        # Taken out afterwards, forbidden texts share suffixes; as a list they would be a trie.
        if len(formulas) == 1 and truth_vectors == ONLY_REQUIRED:
            formula, banned = split_forbidden_choices(formulas[0], self.formulas, StringChoices)
            if banned:
                dfa, found = self._build_dfa((formula,), truth_vectors)
                return without_texts(dfa, banned), found
        leaves = leaves_of(formulas)
        if len(leaves) == 1 and formulas == (leaves[0],) and truth_vectors == ONLY_REQUIRED:
            return self.leaf_dfa(leaves[0]), [REQUIRED]
        # Any number of lists become one automaton: side by side they would take very long.
        lists = [leaf for leaf in leaves if isinstance(leaf.assertion, StringChoices)]
        others = [leaf for leaf in leaves if not isinstance(leaf.assertion, StringChoices)]
        dfas = [self.leaf_dfa(leaf) for leaf in others]
        listed, holding = listed_dfa(lists)
        label_of = VectorLabels([*others, *lists], formulas, truth_vectors)

        def decide(labels: tuple[int, ...]) -> int:
            fits = [label != DEAD for label in labels[: len(others)]] + [False] * len(lists)
            for index in holding[labels[-1] if lists else DEAD]:
                fits[len(others) + index] = True
            return label_of(fits)

        return combine([*dfas, listed] if lists else dfas, decide), label_of.vectors
