"""Deterministic automata over classes of code points, and how they are made and combined.

An expression becomes one by these steps; each stage can be printed::

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

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.codepoints import ANY, EMPTY, CodePoints
from guided.regular.determinize import MAX_CELLS, smallest_table
from guided.regular.expression import Intersection, Regular
from guided.regular.lookaround import LookaroundSubsets, without_leading_lookahead
from guided.regular.minimize import minimal_columns
from guided.regular.nfa import Nfa, nfa_from_regular
from guided.regular.partition import partition
from guided.regular.product_kernel import completed, pair_up
from guided.regular.reachability import coaccessible
from guided.regular.transitions import moves_of, moves_on
from guided.runtime.fuel import pause_if_due, spend, with_pauses, without_gil

__all__ = [
    "DEAD",
    "MAX_DFA_STATES",
    "Dfa",
    "combine",
    "crawl",
    "dfa_from_nfa",
    "dfa_from_regular",
    "length_dfa",
    "transition_table",
]

DEAD: Final = -1
"""In place of a state: no move. In place of a label: the state does not accept."""
MAX_DFA_STATES: Final = 50_000
"""States of an automaton, after equal ones merge."""
MAX_BUILT_STATES: Final = 4 * MAX_DFA_STATES
"""States before equal ones merge."""
MAX_SIDES: Final = 200
"""``Intersection`` nested in each other. In compiled code, recursion has no other limit."""
_FEW_CODES: Final = 1_000
"""Codes that are quicker to count than a few numbers to sort."""


class Dfa:
    """A trimmed deterministic automaton; state 0 starts, and every state can still accept.

    ``next`` is int32 ``[states, classes]`` with DEAD for no move; ``classes`` are disjoint sets of
    code points, and code points outside them lead nowhere. ``label`` is int32 ``[states]``: DEAD
    if a state does not accept, else what it accepts as. An empty language has no states. Nothing
    in it may be changed: the results of ``moves``, ``edges`` and ``accepting`` are kept.
    """

    __slots__ = ("_accepting", "_edges", "_moves", "classes", "label", "next")

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
        self._edges: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def __len__(self) -> int:
        return len(self.label)

    def __str__(self) -> str:
        return transition_table([*map(str, self.classes)], self.next, self.label)

    @property
    def moves(self) -> NDArray[np.int32]:
        """Sources, targets and classes of all moves, int32 ``[3, moves]``."""
        if self._moves is None:
            self._moves = moves_of(self.next)
        return self._moves

    def edges(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """Source, code point and target of each move over a code point from ``low`` to ``high``.

        Each code point that is read is listed separately, so they should be few; the list is kept,
        and not to be changed.
        """
        found = self._edges.get((low, high))
        if found is None:
            found = self._edges[low, high] = self._edges_over(low, high)
        return found

    def _edges_over(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """Compute ``edges``.

        ``columns`` are the classes that hold some of the code points, and ``read`` has, in the same
        order, which of them each class holds.
        """
        read: list[list[int]] = []
        columns: list[int] = []
        for column, chars in enumerate(with_pauses(self.classes)):
            if chars.ranges and chars.ranges[-1][1] >= low:
                listed = [
                    code_point
                    for first, last in chars.ranges
                    for code_point in range(max(first, low), min(last, high) + 1)
                ]
                if listed:
                    read.append(listed)
                    columns.append(column)
        if not columns:
            return []
        moves = moves_on(self.next, np.array(columns, dtype=np.int32))
        return [
            (source, code_point, target)
            for source, target, place in with_pauses(zip(*moves.tolist(), strict=True))
            for code_point in read[place]
        ]

    @property
    def accepting(self) -> NDArray[np.bool_]:
        """Whether each state accepts; bool ``[states]``."""
        if self._accepting is None:
            self._accepting = self.label != DEAD
        return self._accepting

    def run(self, text: str) -> int:
        """Return the label as which the text is accepted, or DEAD; slow: it looks for classes."""
        if not len(self):
            return DEAD
        state = 0
        for character in text:
            index = next((i for i, c in enumerate(self.classes) if ord(character) in c), None)
            state = DEAD if index is None else int(self.next[state, index])
            if state == DEAD:
                return DEAD
        return int(self.label[state])

    def accepts(self, text: str) -> bool:
        """Return whether the whole text is in the language, whatever its label."""
        return self.run(text) != DEAD

    def relabelled(self, labels: Mapping[int, int]) -> Dfa:
        """Return the automaton with its labels renamed; texts with unlisted labels drop out."""
        renamed = [labels.get(label, DEAD) for label in self.label.tolist()]
        return _finished(self.classes, self.next, np.array(renamed, dtype=np.int32))

    def check(self) -> None:
        """Raise AssertionError unless the automaton is well formed and trimmed."""
        assert self.next.shape == (len(self), len(self.classes)), self.next.shape
        assert self.next.size == 0 or self.next.max(initial=DEAD) < len(self)
        union = EMPTY
        for chars in self.classes:
            assert not union & chars, f"{chars} overlaps an earlier class"
            union = union | chars
        assert coaccessible(self.next, self.accepting).all(), "not trimmed"


def transition_table(
    heads: Sequence[str], next: NDArray[np.int32], label: NDArray[np.int32]
) -> str:
    """Return a line for each state: its number, its label, and where each of the classes leads."""
    lines = [["state", "label", *heads]]
    for state, targets in enumerate(next.tolist()):
        cells = [int(label[state]), *targets]
        lines.append([str(state), *("-" if cell == DEAD else str(cell) for cell in cells)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def dfa_from_regular(regular: Regular, *, search: bool = False) -> Dfa:
    """Return the automaton of all texts that match as a whole or, with ``search``, contain a match.

    Subset construction (Rabin and Scott, 1959). Raises LimitExceededError past MAX_DFA_STATES.
    """
    try:
        return _dfa_from_regular(regular, search, 0)
    except RecursionError as error:
        raise _too_deep() from error


def _dfa_from_regular(regular: Regular, search: bool, depth: int) -> Dfa:
    """Compute ``dfa_from_regular``; ``depth`` is the number of ``Intersection`` that are open above.

    A look-ahead at the beginning becomes a ``Intersection``. The two sides of a ``Intersection`` get separate
    automata, each matched or searched for as the whole would be, which are then combined.
    """
    if depth > MAX_SIDES:
        raise _too_deep()
    regular = without_leading_lookahead(regular, search=search)
    if isinstance(regular, Intersection):
        sides = [
            _dfa_from_regular(side, search, depth + 1) for side in (regular.left, regular.right)
        ]
        wanted = DEAD if regular.negative else 0
        return combine(sides, lambda labels: 0 if labels == (0, wanted) else DEAD)
    dfa = dfa_from_nfa(nfa_from_regular(regular), search=search)
    if dfa is None:
        raise too_many_states()
    return dfa


def _too_deep() -> LimitExceededError:
    return LimitExceededError(
        "the expression nests too deeply, or begins with too many look-aheads", limit=MAX_SIDES
    )


def dfa_from_nfa(nfa: Nfa, *, search: bool = False, most: int = MAX_BUILT_STATES) -> Dfa | None:
    """Return the automaton of the texts along the moves of an NFA; see ``dfa_from_regular``.

    ``None`` for more than ``most`` states before equal ones merge; with look-around ``most`` is
    ignored, and too many states raise LimitExceededError.
    """
    spend(nfa.count)
    if nfa.looks:
        parts = partition([*nfa.sets, ANY] if search else [*nfa.sets])
        subsets = LookaroundSubsets(nfa, parts, search=search)
        return crawl(parts.classes, subsets.first, subsets.step, subsets.label)
    made = smallest_table(nfa, search=search, most=most)
    if made is None:
        return None
    classes, table, label = made
    if len(label) > MAX_DFA_STATES:
        raise too_many_states()
    return Dfa(classes, table, label)


def length_dfa(low: int, high: int | None) -> Dfa:
    """Return all texts of ``low`` to ``high`` code points; ``None`` is no upper bound.

    ``low`` must not be above ``high``: a ``Dfa`` has no states from which no text is accepted.
    Raises LimitExceededError past MAX_DFA_STATES.
    """
    size = (low if high is None else high) + 1
    if size > MAX_DFA_STATES:
        raise too_many_states()
    table = np.arange(1, size + 1, dtype=np.int32).reshape(size, 1)
    table[-1, 0] = DEAD if high is not None else size - 1
    return Dfa((ANY,), table, np.where(np.arange(size) >= low, 0, DEAD).astype(np.int32))


def combine(dfas: Sequence[Dfa], decide: Callable[[tuple[int, ...]], int]) -> Dfa:
    """Return the automaton that runs all of them side by side, over all texts.

    ``decide`` gets for each the label as which it accepts, or DEAD, and returns the label of the
    whole, or DEAD. It is called once for each combination that a text leads to, so it may accept
    if none of them does (a complement); without automata it is called as ``decide(())``. Raises
    LimitExceededError past MAX_DFA_STATES.
    """
    joint = partition([ANY, *(chars for dfa in dfas for chars in dfa.classes)])
    width = len(joint.classes)
    sides: list[_Side] = []
    if len(dfas) < 2:
        # A side with one state, no automata and so no labels. With it even a single automaton, or
        # none, goes through ``_side_by_side``, which keeps only states that texts lead to.
        table = np.zeros((1, width), dtype=np.int32)
        sides.append(_Side(table, np.zeros(1, dtype=np.int64), [()]))
    # Places of the first set of each automaton in ``joint``; ANY, at 0, covers all other texts.
    shift = 1
    for dfa in dfas:
        pause_if_due()
        columns = np.array(joint.holders(shift, len(dfa.classes)), dtype=np.int32)
        shift += len(dfa.classes)
        # ``completed`` adds a last state for texts that leave the automaton; it has no label.
        sides.append(_one_side(completed(dfa.next, columns), np.append(dfa.label, DEAD)))
    # Pair by pair like a tournament, not one after the other: so each automaton takes part in
    # few products. The order of the sides is kept, as ``decide`` gets its labels in it.
    while len(sides) > 1:
        pause_if_due()
        odd = sides[len(sides) // 2 * 2 :]
        sides = [_side_by_side(*pair) for pair in zip(sides[::2], sides[1::2], strict=False)] + odd
    (whole,) = sides
    decided = np.array([decide(labels) for labels in with_pauses(whole.kinds)], dtype=np.int32)
    return _finished(joint.classes, whole.table, decided[whole.kind])


class _Side(NamedTuple):
    """Some of the automata that are combined."""

    table: NDArray[np.int32]  # [states, classes]
    kind: NDArray[np.int64]  # [states], places in ``kinds``: few combinations, many states
    kinds: list[tuple[int, ...]]
    """Labels of these automata."""


def _one_side(table: NDArray[np.int32], label: NDArray[np.int32]) -> _Side:
    """Return the side of one automaton, whose table is complete: none of its moves is DEAD."""
    # Labels are shifted, as ``_numbered`` takes numbers from 0 on and DEAD is -1.
    labels, kind = _numbered(label.astype(np.int64) - DEAD)
    return _Side(table, kind, [(number + DEAD,) for number in labels])


def _numbered(codes: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """Return the distinct codes, ascending, and for each code its place among them.

    Codes are at least 0.
    """
    if codes.max(initial=0) > len(codes) + _FEW_CODES:
        distinct, places = np.unique(codes, return_inverse=True)
        return distinct.tolist(), places.reshape(-1)
    # Few different numbers: counting them is faster than sorting.
    counts = np.bincount(codes)
    place = np.cumsum(counts != 0) - 1
    return np.flatnonzero(counts).tolist(), place[codes]


def _side_by_side(left: _Side, right: _Side) -> _Side:
    """Return the product of two sides: pairs of states that some text leads to, the start first.

    Equal pairs are merged only at the end (``_finished``), so there may be more than
    MAX_DFA_STATES of them. Raises LimitExceededError if their table would have more than
    MAX_CELLS cells.
    """
    with without_gil(left.table.size + right.table.size):
        pairs = pair_up(left.table, right.table, MAX_CELLS // left.table.shape[1])
    if pairs is None:
        raise too_many_states()
    table, lefts, rights = pairs
    # A pair of kinds as one number, so that distinct pairs are found by ``_numbered``.
    width = len(right.kinds)
    codes, kind = _numbered(left.kind[lefts] * width + right.kind[rights])
    # Before they are put together: many long ones take much memory.
    labels = len(left.kinds[0]) + len(right.kinds[0])
    spend(200 + table.size // 16 + len(codes) * (1 + labels // 16))
    kinds = []
    for code in codes:
        pause_if_due()
        kinds.append(left.kinds[code // width] + right.kinds[code % width])
    return _Side(table, kind, kinds)


_State = TypeVar("_State", bound=Hashable)


def crawl(
    classes: tuple[CodePoints, ...],
    first: _State,
    step: Callable[[_State, int], _State | None],
    label: Callable[[_State], int],
) -> Dfa:
    """Return the minimal automaton of all states that ``step`` leads to from ``first``.

    ``step`` gets a state and the place of a class in ``classes``, and returns the next state or
    ``None``. ``label`` returns what a state accepts as, or DEAD. Equal states are one, so states
    must not change. ``step`` is called once for each state and class, breadth first; ``label`` once
    for each state, after that. Raises LimitExceededError past MAX_DFA_STATES.
    """
    numbers = {first: 0}
    queue = [first]
    rows: list[list[int]] = []
    # The queue grows during the loop: breadth first, in the order of the numbers.
    for state in queue:
        spend(len(classes))
        row = []
        for index in range(len(classes)):
            reached = step(state, index)
            if reached is None:
                row.append(DEAD)
                continue
            number = numbers.setdefault(reached, len(queue))
            if number == len(queue):
                if number >= MAX_DFA_STATES:
                    raise too_many_states()
                queue.append(reached)
            row.append(number)
        rows.append(row)
    table = np.array(rows, dtype=np.int32).reshape(len(rows), len(classes))
    labels = np.fromiter(map(label, queue), dtype=np.int32, count=len(queue))
    return _finished(classes, table, labels)


def too_many_states() -> LimitExceededError:
    """Return the error for an automaton that grew past MAX_DFA_STATES."""
    return LimitExceededError(
        f"its automaton needs more than {MAX_DFA_STATES} states",
        limit=MAX_DFA_STATES,
        hint="simplify the pattern or lower its bounds",
    )


def _finished(
    classes: tuple[CodePoints, ...], table: NDArray[np.int32], label: NDArray[np.int32]
) -> Dfa:
    """Return the minimal automaton of a table; classes that no state distinguishes become one.

    State 0 of the table must be the start; it may have states that cannot be reached or that lead
    to no label. ``minimal_columns`` removes these, keeps the start as state 0, and returns for each
    class the column that it is in now, DEAD for a class that leads nowhere.
    """
    spend(table.size // 8)
    with without_gil(table.size // 8):
        table, label, group = minimal_columns(table, label)
    if len(label) > MAX_DFA_STATES:
        raise too_many_states()
    width = table.shape[1]
    # Columns are numbered in the order of their first classes: as many columns as classes means
    # that each class has its own, in the same order.
    if width == len(classes):
        return Dfa(classes, table, label)
    members: list[list[CodePoints]] = [[] for _ in range(width)]
    for chars, number in zip(classes, group.tolist(), strict=True):
        if number != DEAD:
            members[number].append(chars)
    joined = tuple(
        each[0]
        if len(each) == 1
        else CodePoints.of(bounds for chars in each for bounds in chars.ranges)
        for each in members
    )
    return Dfa(joined, table, label)
