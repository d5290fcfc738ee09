"""Automata of JSON strings: lists of texts, quotes around content, counts outside an automaton."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
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
from guided.json_schema.machine.scalar_blocks import (
    ONLY_REQUIRED,
    REQUIRED,
    TruthLabels,
    pattern_dfa,
    without_listed_choices,
)
from guided.machine.block import CLOSE_STRING, CODE_POINT_END, INSIDE, START, STOP, Block, block_of
from guided.machine.block_kernels import block_ways
from guided.regular.byte_dfa import ByteDfa
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, Dfa, combine, length_dfa
from guided.regular.reachability import fewer_code_points
from guided.regular.word_graph import without
from guided.runtime.fuel import pause_if_due, spend, without_gil

__all__ = [
    "StringAutomata",
    "choices_dfa",
    "choices_in",
    "code_points_left",
    "counting_ways",
    "quoted",
    "start_states",
    "without_length",
]


def choices_dfa(values: Mapping[str, int]) -> Dfa:
    """Return the automaton of a list of strings, each with its label: their trie.

    There has to be at least one: every state of a ``Dfa`` can still accept, which the root of none
    could not. Labels are numbers from 0 on, never DEAD.
    """
    children: list[dict[str, int]] = [{}]
    ends: dict[int, int] = {}
    for text, named in values.items():
        node = 0
        for character in text:
            node = children[node].setdefault(character, len(children))
            if node == len(children):
                children.append({})
        ends[node] = named
    letters = sorted({letter for edges in children for letter in edges})
    number = {letter: i for i, letter in enumerate(letters)}
    table = np.full((len(children), len(letters)), DEAD, dtype=np.int32)
    spend(len(children) * 4)
    for node, edges in enumerate(children):
        for letter, child in edges.items():
            table[node, number[letter]] = child
    label = np.full(len(children), DEAD, dtype=np.int32)
    label[list(ends)] = list(ends.values())
    return Dfa(tuple(map(CodePoints.single, letters)), table, label)


def listed_dfa(leaves: list[Leaf]) -> tuple[Dfa, list[list[bool]]]:
    """Return the automaton of all strings that some assertions list.

    Also returns by label which of the assertions hold; the last entry, at DEAD, is for strings that
    none of them lists. Without any list the automaton has a state that cannot accept, and must not
    be used.
    """
    lists: dict[str, list[int]] = {}
    for number, leaf in enumerate(leaves):
        for text in choices_in(leaf) or ():
            lists.setdefault(text, []).append(number)
    labels: dict[tuple[int, ...], int] = {}
    dfa = choices_dfa(
        {text: labels.setdefault(tuple(held), len(labels)) for text, held in lists.items()}
    )
    holding = [[number in held for number in range(len(leaves))] for held in (*labels, ())]
    return dfa, holding


def choices_in(formula: Formula) -> tuple[str, ...] | None:
    """Return the strings that an assertion lists."""
    if isinstance(formula, Leaf) and isinstance(formula.assertion, StringChoices):
        return formula.assertion.values
    return None


def without_length(
    ask: Formula, formulas: Formulas
) -> tuple[tuple[Formula], tuple[int, int | None]]:
    """Return a formula, as the one ask, without its bounds on the length; and those bounds.

    Bounds may cross: the caller handles that. ``None`` means no upper bound.
    """
    low, high = 0, None
    others: list[Formula] = []
    for part in conjuncts(ask):
        if isinstance(part, Leaf) and isinstance(part.assertion, Length):
            low = max(low, part.assertion.low)
            if part.assertion.high is not None:
                high = part.assertion.high if high is None else min(high, part.assertion.high)
        else:
            others.append(part)
    return (formulas.all_of(others),), (low, high)


_CELLS: Final = 100_000
"""Cells of a table processed between two pauses."""


def code_points_left(content: ByteDfa) -> NDArray[np.int32]:
    """Return by state the fewest code points to an accepting one, including a begun one.

    ``content.between`` says how many states, the first ones, stand between two code points. Every
    state of a ``ByteDfa`` can still accept, so all numbers are finite. ``need`` is new; the kernel
    lowers it in place until nothing changes.
    """
    far = np.iinfo(np.int32).max // 2
    need = np.where(content.label != DEAD, 0, far).astype(np.int32)
    has_changed = True
    while has_changed:
        with without_gil(content.next.size // 200):
            has_changed = fewer_code_points(content.next, content.between, need)
        spend(1 + content.next.size // 200)
    return need


def quoted(
    content: ByteDfa,
    need: NDArray[np.int32],
    bounds: tuple[int, int | None],
    key: Hashable,
    truths: tuple[int, ...],
    *,
    is_firm: bool,
) -> Block:
    """Put quotes around the content, in which a raw quote only occurs after a backslash.

    State 0 reads the opening quote, content state ``s`` is ``s + 1``, and after these there is a
    closing state for each label. ``is_firm`` is as for ``counting_ways``, and the other arguments
    as for ``Block``. The arguments are not changed.
    """
    count, width = content.next.shape
    quote, start, end = ord('"'), 0, count + 1
    counts = bounds != (0, None)
    labels = np.unique(content.label[content.label != DEAD])
    byte_class = content.byte_class.copy()
    byte_class[quote] = width  # a class of its own
    # Every way to accept goes through one closing state per label.
    size = end + len(labels)
    # The opening quote begins a count; where the content loops to the state after the quote, that
    # state is also entered as a character ends, so it gets a twin that only the quote leads to.
    twin = size
    table = np.empty((size + counts, width + 1), dtype=np.int32)
    table[start], table[end:] = DEAD, DEAD
    inner = table[1:end]
    # Some rows at a time, as there may be millions of cells.
    rows = 1 + _CELLS // (width + 1)
    for first in range(0, count, rows):
        pause_if_due()
        some = slice(first, first + rows)
        piece, label = content.next[some], content.label[some]
        inner[some, :width] = np.where(piece == DEAD, DEAD, piece + 1)
        escaped = inner[some, content.byte_class[quote]]
        closing = end + np.searchsorted(labels, label)
        inner[some, width] = np.where(label != DEAD, closing, escaped)
    table[start, width] = twin if counts else 1
    label = np.full(len(table), DEAD, dtype=np.int32)
    label[end:size] = labels
    beat = np.full(len(table), INSIDE, dtype=np.int8)
    beat[1 : 1 + content.between] = CODE_POINT_END
    beat[start] = 0
    beat[end:size] = CLOSE_STRING
    needed = np.zeros(len(table), dtype=np.int32)
    needed[start], needed[1:end] = need[0], need
    if not counts:
        return block_of(ByteDfa(byte_class, table, label), key=key, verdicts=truths)
    table[twin], label[twin], beat[twin], needed[twin] = table[1], label[1], START, needed[1]
    dfa = ByteDfa(byte_class, table, label)
    block = block_of(
        dfa, key=key, count_event=beat, min_remaining=needed, bounds=bounds, verdicts=truths
    )
    block = counting_ways(block, beat == CODE_POINT_END, needed, is_firm=is_firm)
    block.left[start_states(block)] += bounds[0]  # the shortest way through is not long enough
    return block


def counting_ways(
    block: Block, ticks: NDArray[np.bool_], need: NDArray[np.int32], *, is_firm: bool
) -> Block:
    """Return the block with ways of as many code points as MIN_REMAINING says, which a bound lets through.

    A way of the fewest bytes may have more code points: "aaa" beside "€€". Under a bound that
    ``is_firm``, because a schema sets it, every string that fits is allowed. So MIN_REMAINING stays the
    fewest code points, and ways are the shortest in bytes among those that have no more. Any other
    bound may forbid a little more: ways are the shortest in bytes, and MIN_REMAINING follows them.

    ``ticks`` marks the states in which a code point is complete.
    """
    states, table = np.arange(len(block)), block.dfa.next
    leads_on = block.way != STOP
    ahead = np.where(leads_on, table[states, block.dfa.byte_class[block.way]], states)
    along = (leads_on & ticks[ahead]).astype(np.int32)
    if np.array_equal(need, need[ahead] + along):
        return block
    if not is_firm:
        # By ever longer pieces of the ways, each twice as long as those before.
        while not np.array_equal(ahead, further := ahead[ahead]):
            pause_if_due()
            along += along[ahead]
            ahead = further
        return replace(block, min_remaining=along)
    narrow = np.empty_like(table)
    through = need + ticks
    rows = 1 + _CELLS // table.shape[1]
    for first in range(0, len(table), rows):
        pause_if_due()
        some = slice(first, first + rows)
        fewest = through[table[some]] == need[some, np.newaxis]
        narrow[some] = np.where(fewest, table[some], DEAD)
    with without_gil(table.size // 64):
        left, way, aim, _, _ = block_ways(narrow, block.dfa.label, block.dfa.byte_class)
    return replace(block, left=left, way=way, aim=aim)


def start_states(block: Block) -> list[int]:
    """Return the states of a counting block from which nothing was counted yet."""
    return [0, len(block) - 1]


_DFA_BYTES: Final = 1_000
"""About how many bytes an automaton takes, however small."""


class StringAutomata:
    """The automata of the strings that fit formulas.

    They read the content of strings: code points, without quotes and escapes. They are kept as long
    as this object, shared by all formulas with the same assertions, and not to be changed.
    """

    def __init__(self, formulas: Formulas) -> None:
        self.formulas: Final = formulas
        self._dfas: dict[Leaf, Dfa] = {}

    @property
    def nbytes(self) -> int:
        """About how many bytes the automata take."""
        # Listed at once: the caller may not hold the lock under which more are made.
        return sum([_DFA_BYTES + dfa.next.nbytes for dfa in list(self._dfas.values())])

    def fits(self, ask: Formula, text: str) -> bool:
        """Return whether one string fits a formula over assertions about strings."""
        return evaluate(ask, lambda leaf: self._string_holds(leaf, text))

    def _string_holds(self, leaf: Leaf, text: str) -> bool:
        """Return whether an assertion about strings holds of one; lengths are in code points.

        Only ``StringChoices``, ``Length`` and ``Matches`` are about strings; it must agree with
        ``_leaf_dfa``.
        """
        about = leaf.assertion
        if isinstance(about, StringChoices):
            return text in about.values
        if isinstance(about, Length):
            return about.low <= len(text) and (about.high is None or len(text) <= about.high)
        assert isinstance(about, Matches), about
        return self.leaf_dfa(leaf).accepts(text)

    def leaf_dfa(self, leaf: Leaf) -> Dfa:
        """Return the content of the strings that fit one assertion.

        Kept as long as this object, and not to be changed.
        """
        found = self._dfas.get(leaf)
        if found is None:
            found = self._dfas[leaf] = self._leaf_dfa(leaf.assertion)
        return found

    def _leaf_dfa(self, about: Assertion) -> Dfa:
        """Compute ``leaf_dfa`` for a new assertion about strings.

        Strings here are code points without quotes and escapes; DEAD labels are strings that do not
        fit.
        """
        if isinstance(about, Matches):
            return pattern_dfa(about.pattern)
        if isinstance(about, Length):
            return length_dfa(about.low, about.high)
        assert isinstance(about, StringChoices), about
        return choices_dfa(dict.fromkeys(about.values, 0))

    def formula_dfa(self, ask: Formula) -> Dfa:
        """Return the content of the strings that fit a formula."""
        return self._judged((ask,), ONLY_REQUIRED)[0]

    def truths(self, asks: tuple[Formula, ...]) -> list[int]:
        """Return all truth vectors that strings can have."""
        return self._judged(asks, None)[1]

    def _judged(
        self, asks: tuple[Formula, ...], truths: frozenset[int] | None
    ) -> tuple[Dfa, list[int]]:
        """Return the content of the strings with some truth vectors, and the vector of each label.

        ``truths`` are the vectors wanted, ``None`` for all. A label is an index in the list.
        ``combine`` fills the list while it makes the automaton. Labels of ``decide`` are in the
        order of ``others``, then the one of all lists.
        """
        if len(asks) == 1 and truths == ONLY_REQUIRED:
            ask, banned = without_listed_choices(asks[0], self.formulas, StringChoices)
            if banned:
                dfa, found = self._judged((ask,), truths)
                return without(dfa, banned), found
        leaves = leaves_of(asks)
        if len(leaves) == 1 and asks == (leaves[0],) and truths == ONLY_REQUIRED:
            return self.leaf_dfa(leaves[0]), [REQUIRED]
        # Any number of lists become one automaton: side by side they would take very long.
        lists = [leaf for leaf in leaves if isinstance(leaf.assertion, StringChoices)]
        others = [leaf for leaf in leaves if not isinstance(leaf.assertion, StringChoices)]
        dfas = [self.leaf_dfa(leaf) for leaf in others]
        listed, holding = listed_dfa(lists)
        judge = TruthLabels([*others, *lists], asks, truths)

        def decide(labels: tuple[int, ...]) -> int:
            fits = [label != DEAD for label in labels[: len(others)]]
            return judge(fits + holding[labels[-1] if lists else DEAD])

        return combine([*dfas, listed] if lists else dfas, decide), judge.found
