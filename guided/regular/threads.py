"""The subset construction for expressions with look-around.

A look-behind is a part of the automaton that runs along from the start of the text, so whether it
holds here is known here. What a look-ahead asks for is known later: a *thread* that passed one
carries it on as an *obligation*, itself a set of threads, which is fulfilled as soon as one of
them reaches the end of the look-ahead and not before. So a state of the result is a set of
threads, each a state of the NFA with the obligations that it has to fulfil::

    ^(?=.*b)a*   behind "a":  {(a*, {.*b})}     behind "b": {}, since a* does not read b

Look-around may be nested in any way, but a look-behind that contains ``$`` is not provided for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from guided.regular.nfa import Edges, Nfa
from guided.regular.partition import Partition
from guided.runtime.fuel import spend

__all__ = ["ThreadSet", "Threads"]


class Obligation(NamedTuple):
    """One of these threads has to reach the end of the look-around; or none, if it is negative."""

    look: int
    threads: ThreadSet


Thread: TypeAlias = tuple[int, frozenset[Obligation]]
ThreadSet: TypeAlias = frozenset[Thread]

_FREE: Final[frozenset[Obligation]] = frozenset()


@dataclass(frozen=True, slots=True)
class Position:
    """What is known about a place in the text: the threads of each look-behind up to here."""

    behind: list[ThreadSet]
    at_start: bool = False
    at_end: bool = False


State: TypeAlias = tuple[ThreadSet, tuple[ThreadSet, ...], bool]
"""The threads of the whole, those of each look-behind, and whether the text is still empty."""

_MATCHED: Final[State] = (frozenset({(-1, _FREE)}), (), False)
"""A match lies behind, and that is all that was asked for: every continuation is accepted."""


class Threads:
    """The construction over one NFA, for ``crawl``; with ``search`` a match may begin anywhere."""

    def __init__(self, nfa: Nfa, parts: Partition, *, search: bool) -> None:
        self.nfa = nfa
        self.search = search
        self.empties = _by_source(nfa.empties)
        self.starts = _by_source(nfa.starts)
        self.ends = _by_source(nfa.ends)
        self.conditions: dict[int, list[tuple[int, int]]] = {}
        edges = zip(nfa.conditions.sources, nfa.conditions.targets, strict=True)
        for (source, target), look in zip(edges, nfa.condition_looks, strict=True):
            self.conditions.setdefault(source, []).append((look, target))
        self.moves: dict[tuple[int, int], list[int]] = {}
        bulk = nfa.bulk[:, : nfa.bulk_size].tolist()
        sources, targets = nfa.moves.sources + bulk[0], nfa.moves.targets + bulk[1]
        for source, target, number in zip(sources, targets, nfa.move_sets + bulk[2], strict=True):
            for index in parts.members[number]:
                self.moves.setdefault((source, index), []).append(target)
        # What nothing can follow from need not be kept.
        self.kept = {nfa.final, *(look.final for look in nfa.looks)}
        self.kept.update(sources, self.ends, self.conditions)
        self.first = self._first()

    def _first(self) -> State:
        here = Position([], at_start=True)
        for look in self.nfa.looks:
            begun = frozenset() if look.ahead else self._closed([(look.start, _FREE)], here)
            here.behind.append(begun)
        return self._state(self._closed([(0, _FREE)], here), here)

    def step(self, state: State, index: int) -> State | None:
        """The state behind a code point of a class, None where no match can follow."""
        if state == _MATCHED:
            return _MATCHED
        threads, behind, _ = state
        here = Position([])
        known: dict[Obligation, Obligation | bool] = {}
        for look, before in zip(self.nfa.looks, behind, strict=True):
            if look.ahead:
                here.behind.append(before)
                continue
            # A look-behind may begin anywhere.
            moved = [*self._moved(before, index, here, known), (look.start, _FREE)]
            here.behind.append(self._closed(moved, here))
        final = self.nfa.final if self.search else None
        moved = self._moved(threads, index, here, known, final)
        if self.search:
            moved.append((0, _FREE))
        reached = self._closed(moved, here)
        return self._state(reached, here) if reached else None

    def label(self, state: State) -> int:
        """0 where the text may end, else -1."""
        if state == _MATCHED:
            return 0
        threads, behind, at_start = state
        here = Position([], at_start=at_start, at_end=True)
        for before in behind:
            here.behind.append(self._closed(self._fulfilled(before, here), here))
        ended = self._closed(self._fulfilled(threads, here), here)
        return 0 if any(at == self.nfa.final for at, _ in ended) else -1

    def _state(self, threads: ThreadSet, here: Position) -> State:
        if self.search and (self.nfa.final, _FREE) in threads:
            return _MATCHED
        return threads, tuple(here.behind), here.at_start

    def _moved(
        self,
        threads: ThreadSet,
        index: int,
        here: Position,
        known: dict[Obligation, Obligation | bool],
        final: int | None = None,
    ) -> list[Thread]:
        """The threads behind one more code point; in ``final`` every code point may follow."""
        moved: list[Thread] = []
        spend(len(threads))
        for at, obligations in threads:
            targets = self.moves.get((at, index), [])
            if at == final:
                targets = [*targets, at]
            if not targets:
                continue
            left = self._obligations_behind(obligations, index, here, known)
            if left is not None:
                moved += [(target, left) for target in targets]
        return moved

    def _obligations_behind(
        self,
        obligations: frozenset[Obligation],
        index: int,
        here: Position,
        known: dict[Obligation, Obligation | bool],
    ) -> frozenset[Obligation] | None:
        """What is left of them behind a code point, None where one cannot be fulfilled."""
        left: list[Obligation] = []
        for obligation in obligations:
            if obligation not in known:
                look, threads = obligation
                moved = self._moved(threads, index, here, known, self.nfa.looks[look].final)
                known[obligation] = self._settled(look, self._closed(moved, here), here)
            settled = known[obligation]
            if settled is False:
                return None
            if settled is not True:
                left.append(settled)
        return frozenset(left)

    def _settled(self, number: int, threads: ThreadSet, here: Position) -> Obligation | bool:
        """Whether a look-around holds, as far as these threads tell."""
        look = self.nfa.looks[number]
        if not threads:
            return look.negative
        if (look.final, _FREE) in threads:
            return not look.negative
        if here.at_end:  # where no thread has obligations any more
            return look.negative
        return Obligation(number, threads)

    def _condition(self, number: int, here: Position) -> Obligation | bool:
        """Whether a look-around holds here."""
        look = self.nfa.looks[number]
        if look.ahead:
            return self._settled(number, self._closed([(look.start, _FREE)], here), here)
        ended = frozenset(thread for thread in here.behind[number] if thread[0] == look.final)
        return self._settled(number, ended, here)

    def _fulfilled(self, threads: ThreadSet, here: Position) -> list[Thread]:
        """The threads whose obligations the end of the text fulfils."""
        return [
            (at, _FREE)
            for at, obligations in threads
            if all(self._holds_at_end(obligation, here) for obligation in obligations)
        ]

    def _holds_at_end(self, obligation: Obligation, here: Position) -> bool:
        look = self.nfa.looks[obligation.look]
        ended = self._closed(self._fulfilled(obligation.threads, here), here)
        return any(at == look.final for at, _ in ended) != look.negative

    def _closed(self, threads: Iterable[Thread], here: Position) -> ThreadSet:
        """The threads with all that they reach without reading a code point."""
        seen = set(threads)
        stack = list(seen)
        while stack:
            at, obligations = stack.pop()
            spend(2 + len(obligations))
            reached = [(target, obligations) for target in self.empties.get(at, ())]
            if here.at_start:
                reached += [(target, obligations) for target in self.starts.get(at, ())]
            if here.at_end:
                reached += [(target, obligations) for target in self.ends.get(at, ())]
            for look, target in self.conditions.get(at, ()):
                settled = self._condition(look, here)
                if settled is True:
                    reached.append((target, obligations))
                elif settled is not False:
                    reached.append((target, obligations | {settled}))
            for thread in reached:
                if thread not in seen:
                    seen.add(thread)
                    stack.append(thread)
        return self._reduced(seen)

    def _reduced(self, threads: set[Thread]) -> ThreadSet:
        """Without threads that another one in the same place with fewer obligations makes idle."""
        places: dict[int, list[frozenset[Obligation]]] = {}
        for at, obligations in threads:
            if at in self.kept:
                places.setdefault(at, []).append(obligations)
        spend(sum(len(found) ** 2 for found in places.values() if len(found) > 1))
        return frozenset(
            (at, obligations)
            for at, found in places.items()
            for obligations in found
            if len(found) == 1 or not any(other < obligations for other in found)
        )


def _by_source(edges: Edges) -> dict[int, list[int]]:
    targets: dict[int, list[int]] = {}
    for source, target in zip(edges.sources, edges.targets, strict=True):
        targets.setdefault(source, []).append(target)
    return targets
