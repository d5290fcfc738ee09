"""Deterministic automata over classes of code points."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from guided.automata.codepoints import ANY, EMPTY, MAX_CODE_POINT, CodePoints
from guided.automata.fuel import spend
from guided.automata.nfa import Nfa, nfa_from_regular
from guided.automata.reachability import coaccessible, reachable
from guided.automata.regular import Regular
from guided.errors import LimitExceededError

__all__ = ["DEAD", "MAX_DFA_STATES", "Dfa", "crawl", "dfa_from_regular", "length_dfa", "product"]

DEAD = -1
MAX_DFA_STATES = 50_000
_MINIMISED_STATES = 512


@dataclass(frozen=True, slots=True, eq=False)
class Dfa:
    """A trimmed deterministic automaton; state 0 starts, and every state can still accept.

    ``next`` is int32 ``[states, classes]`` with DEAD for no move; ``classes`` are disjoint sets of
    code points, and what none of them holds leads nowhere. An empty language has no states.
    """

    classes: tuple[CodePoints, ...]
    next: NDArray[np.int32]
    accepting: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.accepting)

    def accepts(self, text: str) -> bool:
        """Whether the whole text is in the language; linear in the text, for tests and enums."""
        if not len(self):
            return False
        state = 0
        for character in text:
            index = next((i for i, c in enumerate(self.classes) if ord(character) in c), None)
            state = DEAD if index is None else int(self.next[state, index])
            if state == DEAD:
                return False
        return bool(self.accepting[state])

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
    """The automaton of all texts that match as a whole, or, with ``search``, that hold a match.

    Subset construction (Rabin and Scott, 1959). Raises LimitExceededError past MAX_DFA_STATES.
    """
    nfa = nfa_from_regular(regular)
    classes = _partition(chars for moves in nfa.moves for chars, _ in moves)
    if search:
        classes = _partition((*classes, ANY))
    subsets = _Subsets(nfa, classes, search=search)
    return crawl(classes, subsets.first, subsets.step, subsets.accepts)


_Subset: TypeAlias = tuple[frozenset[int], bool]
"""States of an NFA that a text may be in, and whether the text is still empty."""

_MATCHED = (frozenset({-1}), False)
"""A match lies behind, and that is all that was asked for: every continuation is accepted."""


class _Subsets:
    """The subset construction over one NFA; with ``search`` a match may begin anywhere."""

    def __init__(self, nfa: Nfa, classes: Sequence[CodePoints], *, search: bool) -> None:
        self.nfa = nfa
        self.targets = _class_targets(nfa, classes)
        self.search = search
        self.restart = self._closure([0]) if search else frozenset()
        self.first = self._settled(self._closure([0], at_start=True), at_start=True)

    def step(self, subset: _Subset, index: int) -> _Subset | None:
        if subset == _MATCHED:
            return _MATCHED
        states, _ = subset
        reached = {target for state in states for target in self.targets[state].get(index, ())}
        settled = self._settled(self._closure(reached))
        return settled if settled[0] else None

    def accepts(self, subset: _Subset) -> bool:
        states, at_start = subset
        return subset == _MATCHED or self.nfa.final in self._closure(
            states, at_start=at_start, at_end=True
        )

    def _settled(self, states: frozenset[int], *, at_start: bool = False) -> _Subset:
        if self.search and self.nfa.final in states:
            return _MATCHED
        return states | self.restart, at_start

    def _closure(
        self, states: Iterable[int], *, at_start: bool = False, at_end: bool = False
    ) -> frozenset[int]:
        seen = set(states)
        stack = list(seen)
        while stack:
            state = stack.pop()
            reached = list(self.nfa.empties[state])
            if at_start:
                reached += self.nfa.starts[state]
            if at_end:
                reached += self.nfa.ends[state]
            for target in reached:
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        spend(len(seen))
        return frozenset(seen)


def length_dfa(low: int, high: int | None) -> Dfa:
    """All texts of at least ``low`` and at most ``high`` code points."""
    size = (low if high is None else high) + 1
    if size > MAX_DFA_STATES:
        raise _too_many_states()
    table = np.arange(1, size + 1, dtype=np.int32).reshape(size, 1)
    table[-1, 0] = DEAD if high is not None else size - 1
    return Dfa((ANY,), table, np.arange(size) >= low)


def product(left: Dfa, right: Dfa, accept: Callable[[bool, bool], bool]) -> Dfa:
    """The automaton that runs both and accepts by ``accept(left accepts, right accepts)``.

    ``accept(False, False)`` has to be false. Raises LimitExceededError past MAX_DFA_STATES.
    """
    classes = _partition((*left.classes, *right.classes))
    left_class = [_class_of(chars, left.classes) for chars in classes]
    right_class = [_class_of(chars, right.classes) for chars in classes]

    def move(dfa: Dfa, state: int, index: int | None) -> int:
        return DEAD if state == DEAD or index is None else int(dfa.next[state, index])

    def step(pair: tuple[int, int], index: int) -> tuple[int, int] | None:
        reached = (
            move(left, pair[0], left_class[index]),
            move(right, pair[1], right_class[index]),
        )
        return None if reached == (DEAD, DEAD) else reached

    def accepts(pair: tuple[int, int]) -> bool:
        a, b = pair
        return accept(a != DEAD and bool(left.accepting[a]), b != DEAD and bool(right.accepting[b]))

    first = (0 if len(left) else DEAD, 0 if len(right) else DEAD)
    return crawl(classes, first, step, accepts)


_State = TypeVar("_State", bound=Hashable)


def crawl(
    classes: tuple[CodePoints, ...],
    first: _State,
    step: Callable[[_State, int], _State | None],
    accepts: Callable[[_State], bool],
) -> Dfa:
    """The automaton of all states that ``step`` leads to from ``first``, trimmed and minimised."""
    numbers = {first: 0}
    queue = [first]
    rows: list[list[int]] = []
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
                    raise _too_many_states()
                queue.append(reached)
            row.append(number)
        rows.append(row)
    table = np.array(rows, dtype=np.int32).reshape(len(rows), len(classes))
    accepting = np.fromiter(map(accepts, queue), dtype=np.bool_, count=len(queue))
    return _minimise(*_trim(classes, table, accepting))


def _too_many_states() -> LimitExceededError:
    return LimitExceededError(
        f"its automaton needs more than {MAX_DFA_STATES} states",
        limit=MAX_DFA_STATES,
        hint="simplify the pattern or lower its bounds",
    )


def _partition(sets: Iterable[CodePoints]) -> tuple[CodePoints, ...]:
    """The coarsest disjoint classes out of which every one of the sets can be put together."""
    distinct = list(dict.fromkeys(chars for chars in sets if chars))
    cuts = {0, MAX_CODE_POINT + 1}
    for chars in distinct:
        for low, high in chars.ranges:
            cuts.update((low, high + 1))
    edges = sorted(cuts)
    signature: dict[int, list[int]] = {low: [] for low in edges}
    position = {low: i for i, low in enumerate(edges)}
    for number, chars in enumerate(distinct):
        for low, high in chars.ranges:
            spend(position[high + 1] - position[low])
            for index in range(position[low], position[high + 1]):
                signature[edges[index]].append(number)
    grouped: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for low, after in itertools.pairwise(edges):
        if signature[low]:
            grouped.setdefault(tuple(signature[low]), []).append((low, after - 1))
    return tuple(CodePoints.of(ranges) for ranges in grouped.values())


def _class_of(chars: CodePoints, classes: Sequence[CodePoints]) -> int | None:
    """Which of the coarser classes holds ``chars``; a class of a refinement lies in one or none."""
    point = chars.ranges[0][0]
    return next((index for index, whole in enumerate(classes) if point in whole), None)


def _class_targets(nfa: Nfa, classes: Sequence[CodePoints]) -> list[dict[int, list[int]]]:
    """For each state of the NFA, the states that each class leads to."""
    members: dict[CodePoints, list[int]] = {}
    targets: list[dict[int, list[int]]] = []
    for moves in nfa.moves:
        row: dict[int, list[int]] = {}
        for chars, target in moves:
            if chars not in members:
                members[chars] = [i for i, part in enumerate(classes) if part.ranges[0][0] in chars]
            for index in members[chars]:
                row.setdefault(index, []).append(target)
        targets.append(row)
    return targets


def _trim(
    classes: tuple[CodePoints, ...], table: NDArray[np.int32], accepting: NDArray[np.bool_]
) -> tuple[tuple[CodePoints, ...], NDArray[np.int32], NDArray[np.bool_]]:
    """Drop the states that cannot be reached or cannot accept."""
    live = np.nonzero(reachable(table) & coaccessible(table, accepting))[0]
    if not len(live) or live[0] != 0:
        return (), np.empty((0, 0), dtype=np.int32), np.empty(0, dtype=np.bool_)
    renumber = np.full(len(accepting) + 1, DEAD, dtype=np.int32)  # the last entry serves DEAD
    renumber[live] = np.arange(len(live), dtype=np.int32)
    return classes, renumber[table[live]], accepting[live]


def _minimise(
    classes: tuple[CodePoints, ...], table: NDArray[np.int32], accepting: NDArray[np.bool_]
) -> Dfa:
    """Merge states of equal residual language by refining a partition (Moore, 1956).

    Refinement takes a round per step of depth, so large automata stay as they are.
    """
    count = len(accepting)
    if not 0 < count <= _MINIMISED_STATES:
        return Dfa(classes, table, accepting)
    block = accepting.astype(np.int32)
    blocks = 0
    while True:
        lookup = np.append(block, DEAD).astype(np.int32)
        signature = np.column_stack([block, lookup[table]])
        _, groups = np.unique(signature, axis=0, return_inverse=True)
        block = groups.reshape(-1).astype(np.int32)
        if block.max() + 1 == blocks:
            break
        blocks = int(block.max()) + 1
    # Number the blocks by their first state, so that the start keeps number 0.
    _, first = np.unique(block, return_index=True)
    order = np.argsort(first)
    rank = np.empty(blocks, dtype=np.int32)
    rank[order] = np.arange(blocks, dtype=np.int32)
    representatives = first[order]
    renumbered = np.append(rank[block], DEAD).astype(np.int32)
    return Dfa(classes, renumbered[table[representatives]], accepting[representatives])
