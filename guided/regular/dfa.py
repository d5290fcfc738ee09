"""Deterministic automata over classes of code points: construction and combination.

An expression is converted in these steps::

    (a|b)*b        Regular   guided.regular.expression
       |  nfa_from_regular   Thompson's construction
       v
    Nfa                      guided.regular.nfa
       |  dfa_from_nfa       classes, subsets, equal states: guided.regular.determinize;
       |                     with look-around in it: guided.regular.lookaround
       v
    Dfa   state  label  [a]  [b]
          0      -      0    1
          1      0      0    1
       |  byte_dfa_from_dfa  spelled in UTF-8 or inside a JSON string
       v
    ByteDfa                  guided.regular.byte_dfa
"""

from __future__ import annotations

import sys
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.codepoints import ANY, EMPTY, CodePoints
from guided.regular.determinize import MAX_CELLS, determinize
from guided.regular.expression import EMPTY_TEXT, Alternate, Graph, Intersection, Regular
from guided.regular.lookaround import LookaroundSubsets, lift_leading_lookahead
from guided.regular.minimize import minimize_with_columns
from guided.regular.nfa import Nfa, nfa_from_regular
from guided.regular.partition import partition
from guided.regular.product_kernel import complete_table, product_table
from guided.regular.reachability import coaccessible
from guided.regular.transitions import list_moves, list_moves_on
from guided.runtime.work_budget import pause_if_due, spend, with_pauses, without_gil

__all__ = [
    "DEAD",
    "MAX_DFA_STATES",
    "Dfa",
    "combine",
    "dfa_from_nfa",
    "dfa_from_regular",
    "length_dfa",
    "too_many_states_error",
]

DEAD: Final = -1
"""In place of a state: no move. In place of a label: the state does not accept."""
MAX_DFA_STATES: Final = 50_000
"""Most states of an automaton, after equal ones are merged."""
MAX_BUILT_STATES: Final = 4 * MAX_DFA_STATES
"""Most states before equal ones are merged."""
MAX_INTERSECTIONS: Final = 200
"""Most ``Intersection`` nested in each other. In compiled code, recursion has no other limit."""
_AFTER_CODE_POINTS: Final = sys.maxunicode + 1
"""Greater than the end of every range, so ``run`` also finds one that begins at the character."""
_COUNTED_NUMBERS: Final = 1_000
"""A table of this many counters always costs less than sorting."""


class Dfa:
    """A trimmed deterministic automaton; state 0 starts, and every state can still accept.

    ``next`` is int32 ``[states, classes]`` with DEAD for no move; ``classes`` are disjoint sets of
    code points, and code points outside them lead nowhere. ``label`` is int32 ``[states]``: DEAD
    if a state does not accept, else a number that says as what it accepts, chosen by the caller
    (``combine``). An empty language has no states. Nothing in it may be changed: the results of
    ``moves``, ``edges`` and ``accepting`` are cached.
    """

    __slots__ = ("_accepting", "_edges_by_range", "_moves", "_ranges", "classes", "label", "next")

    def __init__(
        self,
        classes: tuple[CodePoints, ...],
        next: NDArray[np.int32],
        label: NDArray[np.int32],
    ) -> None:
        self.classes: Final = classes
        self.next: Final = next
        self.label: Final = label
        self._accepting: NDArray[np.bool_] | None = None
        self._moves: NDArray[np.int32] | None = None
        self._edges_by_range: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._ranges: list[tuple[int, int, int]] | None = None

    def __len__(self) -> int:
        return len(self.label)

    @property
    def moves(self) -> NDArray[np.int32]:
        """Sources, targets and classes of all moves, int32 ``[3, moves]``."""
        if self._moves is None:
            self._moves = list_moves(self.next)
        return self._moves

    def edges(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """Return source, number and target of each move over a code point of a range.

        The range is from ``low``, which has number 0, to ``high``, which is included. Each code
        point is listed separately, so they should be few; the order is by class, then by source,
        and decides how copies of automata are numbered. The list is cached and must not be changed.
        """
        edges = self._edges_by_range.get((low, high))
        if edges is None:
            edges = self._edges_by_range[low, high] = self._find_edges(low, high)
        return edges

    def _find_edges(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """Compute ``edges``.

        ``columns`` are the classes that hold some of the code points, and ``read`` has, in the same
        order, the numbers of those that each class holds.
        """
        read: list[list[int]] = []
        columns: list[int] = []
        for column, chars in enumerate(with_pauses(self.classes)):
            if chars.ranges and chars.ranges[-1][1] >= low:
                listed = [
                    code_point - low
                    for first, last in chars.ranges
                    for code_point in range(max(first, low), min(last, high) + 1)
                ]
                if listed:
                    read.append(listed)
                    columns.append(column)
        if not columns:
            return []
        moves = list_moves_on(self.next, np.array(columns, dtype=np.int32))
        return [
            (source, number, target)
            for source, target, place in with_pauses(zip(*moves.tolist(), strict=True))
            for number in read[place]
        ]

    @property
    def accepting(self) -> NDArray[np.bool_]:
        """Whether each state accepts; bool ``[states]``."""
        if self._accepting is None:
            self._accepting = self.label != DEAD
        return self._accepting

    def run(self, text: str) -> int:
        """Return the label with which the text is accepted, or DEAD."""
        if not len(self):
            return DEAD
        state, ranges = 0, self._class_ranges()
        for character in text:
            spend(1)
            code_point = ord(character)
            place = bisect(ranges, (code_point, _AFTER_CODE_POINTS, 0)) - 1
            if place < 0 or ranges[place][1] < code_point:
                return DEAD
            state = int(self.next[state, ranges[place][2]])
            if state == DEAD:
                return DEAD
        return int(self.label[state])

    def _class_ranges(self) -> list[tuple[int, int, int]]:
        """Return first and last code point and the class of each range, in order; cached."""
        if self._ranges is None:
            ranges = [
                (first, last, index)
                for index, chars in enumerate(with_pauses(self.classes))
                for first, last in chars.ranges
            ]
            spend(len(ranges))
            self._ranges = sorted(ranges)
        return self._ranges

    def accepts(self, text: str) -> bool:
        """Return whether the whole text is in the language, whatever its label."""
        return self.run(text) != DEAD

    def relabel(self, labels: Mapping[int, int]) -> Dfa:
        """Return the automaton with other labels; texts with unlisted labels are not accepted.

        The result is minimal, whatever this automaton is.
        """
        renamed = [labels.get(label, DEAD) for label in self.label.tolist()]
        return _minimize(self.classes, self.next, np.array(renamed, dtype=np.int32))

    def to_regular(self) -> Regular:
        """Return the automaton as an expression: a graph whose single end has no moves.

        It does not say with which label a text is accepted.
        """
        if not len(self):
            return Alternate(())
        end = len(self)
        # A move to a state that accepts also leads to the end: a copy of it with another target.
        ending = self.moves[:, self.accepting[self.moves[1]]]
        ending[1] = end
        moves = np.concatenate([self.moves, ending], axis=1)
        graph = Graph(end + 1, self.classes, moves, 0, end)
        return graph if self.label[0] == DEAD else Alternate((graph, EMPTY_TEXT))

    def check(self) -> None:
        """Raise AssertionError unless the automaton is well formed and trimmed."""
        assert self.next.shape == (len(self), len(self.classes)), self.next.shape
        assert self.next.size == 0 or self.next.max(initial=DEAD) < len(self)
        union = EMPTY
        for chars in self.classes:
            assert not union & chars, f"{chars} overlaps an earlier class"
            union = union | chars
        assert coaccessible(self.next, self.accepting).all(), "not trimmed"


def dfa_from_regular(regular: Regular, *, search: bool = False) -> Dfa:
    """Return the automaton of the texts that match as a whole or, with ``search``, contain a match.

    Subset construction (Rabin and Scott, 1959). All accepting states have the label 0. Raises
    LimitExceededError past MAX_DFA_STATES, or if a step before takes too much.
    """
    try:
        return _dfa_from_regular(regular, search, 0)
    except RecursionError as error:
        raise _too_deep_error() from error


def _dfa_from_regular(regular: Regular, search: bool, depth: int) -> Dfa:
    """Compute ``dfa_from_regular``; ``depth`` is the number of ``Intersection`` around this one.

    A look-ahead at the beginning becomes an ``Intersection``. The two sides of an ``Intersection``
    get separate automata, each matched or searched for as the whole would be, which are then
    combined.
    """
    if depth > MAX_INTERSECTIONS:
        raise _too_deep_error()
    regular = lift_leading_lookahead(regular, search=search)
    if isinstance(regular, Intersection):
        sides = [
            _dfa_from_regular(side, search, depth + 1) for side in (regular.left, regular.right)
        ]
        wanted = DEAD if regular.negative else 0
        return combine(sides, lambda labels: 0 if labels == (0, wanted) else DEAD)
    dfa = dfa_from_nfa(nfa_from_regular(regular), search=search)
    if dfa is None:
        raise too_many_states_error(MAX_BUILT_STATES)
    return dfa


def _too_deep_error() -> LimitExceededError:
    return LimitExceededError(
        "the expression nests too deeply, or begins with too many look-aheads",
        limit=MAX_INTERSECTIONS,
    )


def dfa_from_nfa(
    nfa: Nfa, *, search: bool = False, max_states: int = MAX_BUILT_STATES
) -> Dfa | None:
    """Return the minimal automaton of an NFA; ``search`` is as for ``dfa_from_regular``.

    ``None`` for more than ``max_states`` states before equal ones are merged. With look-around
    ``max_states`` is ignored, and more than MAX_DFA_STATES raise LimitExceededError, as does all
    else that grows too large. All accepting states have the label 0.
    """
    spend(nfa.count)
    if nfa.looks:
        # ANY comes last, as moves name sets by their index.
        parts = partition([*nfa.sets, ANY] if search else [*nfa.sets])
        subsets = LookaroundSubsets(nfa, parts, search=search)
        return _dfa_from_subsets(parts.classes, subsets)
    determinized = determinize(nfa, search=search, max_states=max_states)
    if determinized is None:
        return None
    classes, table, label = determinized
    if len(label) > MAX_DFA_STATES:
        raise too_many_states_error()
    return Dfa(classes, table, label)


def length_dfa(low: int, high: int | None) -> Dfa:
    """Return the automaton of texts of ``low`` to ``high`` code points; ``None`` is no bound.

    It is empty if ``low`` is above ``high``. Raises LimitExceededError past MAX_DFA_STATES.
    """
    if high is not None and low > high:
        return combine([], lambda _: DEAD)
    size = (low if high is None else high) + 1
    if size > MAX_DFA_STATES:
        raise too_many_states_error()
    table = np.arange(1, size + 1, dtype=np.int32).reshape(size, 1)
    table[-1, 0] = DEAD if high is not None else size - 1
    return Dfa((ANY,), table, np.where(np.arange(size) >= low, 0, DEAD).astype(np.int32))


def combine(dfas: Sequence[Dfa], decide: Callable[[tuple[int, ...]], int]) -> Dfa:
    """Return the product of some automata: ``decide`` says which combinations of labels accept.

    ``decide`` gets, for each automaton in order, the label as which it accepts a text, or DEAD. It
    returns the label of the product, or DEAD. It is called once for each combination that some text
    leads to, so it may accept if none of them does (a complement); without automata it is called as
    ``decide(())``. Raises LimitExceededError past MAX_DFA_STATES, and where ``partition`` and
    ``_multiply`` do.
    """
    parts = partition([ANY, *(chars for dfa in dfas for chars in dfa.classes)])
    width = len(parts.classes)
    products: list[_Product] = []
    if len(dfas) < 2:
        # The product of no automata: one state, without labels. With it even a single automaton, or
        # none, goes through ``_multiply``, which keeps only states that texts lead to.
        table = np.zeros((1, width), dtype=np.int32)
        products.append(_Product(table, np.zeros(1, dtype=np.int64), [()]))
    # The index of the automaton's first set among those partitioned; ANY, at 0, covers all others.
    first = 1
    for dfa in dfas:
        pause_if_due()
        columns = np.array(parts.sets_by_class(first, len(dfa.classes)), dtype=np.int32)
        first += len(dfa.classes)
        # ``complete_table`` adds a last state for texts that leave the automaton, without a label.
        products.append(
            _product_of_one(complete_table(dfa.next, columns), np.append(dfa.label, DEAD))
        )
    # Neighbours in pairs, as in a tournament, so that each automaton takes part in few products.
    # Their order is kept, as ``decide`` gets the labels in it.
    while len(products) > 1:
        pause_if_due()
        odd = products[len(products) // 2 * 2 :]
        pairs = zip(products[::2], products[1::2], strict=False)
        products = [_multiply(*pair) for pair in pairs] + odd
    (whole,) = products
    decided = np.array(
        [decide(labels) for labels in with_pauses(whole.label_tuples)], dtype=np.int32
    )
    return _minimize(parts.classes, whole.table, decided[whole.label_index])


class _Product(NamedTuple):
    """The product of some of the automata that are combined."""

    table: NDArray[np.int32]  # [states, classes]
    label_index: NDArray[np.int64]  # [states], indices into ``label_tuples``, which are few
    label_tuples: list[tuple[int, ...]]
    """Labels of these automata, in their order, or DEAD."""


def _product_of_one(table: NDArray[np.int32], label: NDArray[np.int32]) -> _Product:
    """Return the product of one automaton, whose table is complete: none of its moves is DEAD."""
    # Labels are shifted, as ``_index_distinct`` takes numbers from 0 on and DEAD is -1.
    labels, label_index = _index_distinct(label.astype(np.int64) - DEAD)
    return _Product(table, label_index, [(number + DEAD,) for number in labels])


def _index_distinct(numbers: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """Return the distinct numbers, ascending, and for each number its index among them.

    Numbers are at least 0. Both ways return the same.
    """
    if numbers.max(initial=0) > len(numbers) + _COUNTED_NUMBERS:
        distinct, indices = np.unique(numbers, return_inverse=True)
        return distinct.tolist(), indices
    # No number is far above their count: counting takes a small table, and is faster than sorting.
    counts = np.bincount(numbers)
    index = np.cumsum(counts != 0) - 1
    return np.flatnonzero(counts).tolist(), index[numbers]


def _multiply(left: _Product, right: _Product) -> _Product:
    """Return the product of two products: pairs of states that some text leads to, the start first.

    Equal pairs are merged only at the end (``_minimize``), so there may be more than
    MAX_DFA_STATES of them. Raises LimitExceededError for more than MAX_BUILT_STATES, or if their
    table would have more than MAX_CELLS cells.
    """
    most_pairs = min(MAX_BUILT_STATES, MAX_CELLS // left.table.shape[1])
    with without_gil(left.table.size + right.table.size):
        pairs = product_table(left.table, right.table, most_pairs)
    if pairs is None:
        raise too_many_states_error(most_pairs)
    table, lefts, rights = pairs
    # A pair of label tuples as one number, so that ``_index_distinct`` finds the distinct pairs.
    width = len(right.label_tuples)
    codes, label_index = _index_distinct(
        left.label_index[lefts] * width + right.label_index[rights]
    )
    # Before the tuples are joined: many long ones take much memory.
    num_labels = len(left.label_tuples[0]) + len(right.label_tuples[0])
    spend(200 + table.size // 16 + len(codes) * (1 + num_labels // 16))
    label_tuples = []
    for code in codes:
        pause_if_due()
        label_tuples.append(left.label_tuples[code // width] + right.label_tuples[code % width])
    return _Product(table, label_index, label_tuples)


def _dfa_from_subsets(classes: tuple[CodePoints, ...], subsets: LookaroundSubsets) -> Dfa:
    """Return the minimal automaton of all subsets, which are over these classes.

    They are numbered breadth first. Raises LimitExceededError past MAX_DFA_STATES.
    """
    numbers = {subsets.first: 0}
    queue = [subsets.first]
    rows: list[list[int]] = []
    # The queue grows during the loop: breadth first, in the order of the numbers.
    for state in queue:
        spend(len(classes))
        row = []
        for index in range(len(classes)):
            reached = subsets.step(state, index)
            if reached is None:
                row.append(DEAD)
                continue
            number = numbers.setdefault(reached, len(queue))
            if number == len(queue):
                if number >= MAX_DFA_STATES:
                    raise too_many_states_error()
                queue.append(reached)
            row.append(number)
        rows.append(row)
    table = np.array(rows, dtype=np.int32).reshape(len(rows), len(classes))
    labels = np.fromiter(map(subsets.label, queue), dtype=np.int32, count=len(queue))
    return _minimize(classes, table, labels)


def too_many_states_error(limit: int = MAX_DFA_STATES) -> LimitExceededError:
    """Return the error for an automaton that grew past a limit."""
    return LimitExceededError(
        f"its automaton needs more than {limit} states",
        limit=limit,
        hint="simplify the pattern or lower its bounds",
    )


def _minimize(
    classes: tuple[CodePoints, ...], table: NDArray[np.int32], label: NDArray[np.int32]
) -> Dfa:
    """Return the minimal automaton of a table; classes that no state distinguishes are merged.

    State 0 of the table must be the start; it may have states that cannot be reached or that lead
    to no label. ``minimize_with_columns`` removes these, keeps the start as state 0, and
    returns for each class the column that it is in now, DEAD for a class that leads nowhere.
    """
    spend(table.size // 8)
    with without_gil(table.size // 8):
        table, label, group = minimize_with_columns(table, label)
    if len(label) > MAX_DFA_STATES:
        raise too_many_states_error()
    width = table.shape[1]
    # Columns are numbered in the order of their first classes: as many columns as classes means
    # that each class has its own, in the same order.
    if width == len(classes):
        return Dfa(classes, table, label)
    members: list[list[CodePoints]] = [[] for _ in range(width)]
    for chars, number in zip(classes, group.tolist(), strict=True):
        if number != DEAD:
            members[number].append(chars)
    merged = tuple(
        each[0]
        if len(each) == 1
        else CodePoints.from_ranges(bounds for chars in each for bounds in chars.ranges)
        for each in members
    )
    return Dfa(merged, table, label)
