"""Look-around inside a text: the subset construction for expressions that have it.

Look-around reaches automata in three ways, each where it is cheapest:

- at the start of the whole text a look-ahead is a condition on all of it, so the automaton of the
  rest and that of the condition are combined (``without_leading_lookahead``);
- anywhere else inside a text it is followed along with the text (``LookaroundSubsets``);
  from it first (``guided.regular.patterns.terminal_edges``).

``LookaroundSubsets`` runs look-behinds from the start of the text on, so at each place it is known
whether they hold. A look-ahead is decided later: a *thread* that passed one carries it on as an
*obligation*, itself a set of threads, which is fulfilled as soon as one of them reaches the end of
the look-ahead. So a state of the result is a set of threads, each a state of the NFA with the
obligations that it has to fulfil::

    ^(?=.*b)a*    after "a":  {(a*, {.*b})}       after "b":  {}, since a* does not read b

Look-around may be nested in any way, but a look-behind that contains ``$`` is not supported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from guided.regular.expression import (
    ANYTHING,
    Alternate,
    Chars,
    Concat,
    Intersection,
    Look,
    Regular,
    Repeat,
    Start,
)
from guided.regular.nfa import Edges, Nfa
from guided.regular.partition import Partition
from guided.runtime.fuel import spend

__all__ = ["LookaroundSubsets", "without_leading_lookahead"]


class Obligation(NamedTuple):
    """One of these threads has to reach the end of the look-around; or none, if it is negative."""

    look: int
    threads: ThreadSet


Thread: TypeAlias = tuple[int, frozenset[Obligation]]
ThreadSet: TypeAlias = frozenset[Thread]

_FREE: Final[frozenset[Obligation]] = frozenset()
"""The obligations of a thread that has none."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the text, and the threads of each look-behind up to it.

    ``behind`` has an entry for each of ``Nfa.looks``, empty for look-aheads. It is filled in their
    order, inner ones first: when a look-behind is computed, those inside it are already there.
    """

    behind: list[ThreadSet]
    at_start: bool = False
    at_end: bool = False


State: TypeAlias = tuple[ThreadSet, tuple[ThreadSet, ...], bool]
"""The threads of the whole, ``Position.behind``, and whether the text is still empty."""

_MATCHED: Final[State] = (frozenset({(-1, _FREE)}), (), False)
"""A match was found, and nothing else matters: whatever follows is accepted."""


def without_leading_lookahead(regular: Regular, *, search: bool) -> Regular:
    """Return the expression with a look-ahead at its start made a condition on the whole text.

    ``^(?=x)y`` becomes ``^y`` and ``^x``, both searched for: two automata side by side take less
    than x carried along as an obligation. A match of the whole text begins at its start, with or
    without ``^``.
    """
    if not isinstance(regular, Concat) or (search and Start() not in regular.parts[:1]):
        return regular
    parts = regular.parts
    at = next((at for at, part in enumerate(parts) if not isinstance(part, Start)), 0)
    first = parts[at] if parts else None
    if not isinstance(first, Look) or not first.ahead:
        return regular
    rest = parts[:at] + parts[at + 1 :]
    ahead = Concat((Start(), _and_anything(first.item)) if search else (_and_anything(first.item),))
    return Intersection(Concat(rest), ahead, first.negative)


def _and_anything(regular: Regular) -> Regular:
    """Return the expression followed by any text, with a look-ahead at its end about that text.

    The last line is right for every expression. The cases before it are the same texts with less
    look-around to follow along.
    """
    match regular:
        case Concat(parts) if parts and isinstance(parts[-1], (Look, Concat, Alternate)):
            return Concat((*parts[:-1], _and_anything(parts[-1])))
        case Alternate(options) if any(isinstance(each, (Look, Concat)) for each in options):
            return Alternate(tuple(map(_and_anything, options)))
        case Look(item, ahead=True, negative=False):
            return _and_anything(item)
        case Look(Chars(chars), ahead=True, negative=True):
            # (?!c).* -> ([^c].*)?
            return Repeat(Concat((Chars(~chars), ANYTHING)), 0, 1)
    return Concat((regular, ANYTHING))


class LookaroundSubsets:
    """The construction over one NFA, for ``crawl``; with ``search`` a match may begin anywhere.

    By state of the NFA: ``empties``, ``starts`` and ``ends`` have where it leads without a code
    point, always or only at the start or end of the text, and ``conditions`` the look-arounds that
    have to hold for it to lead somewhere. ``moves`` has by state and class where a code point
    leads. ``first`` is the state before the text.
    """

    def __init__(self, nfa: Nfa, parts: Partition, *, search: bool) -> None:
        """``parts`` are the classes of ``nfa.sets``, in their order; more sets may follow."""
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
        # A state from which nothing follows need not be kept.
        self.kept = {nfa.final, *(look.final for look in nfa.looks)}
        self.kept.update(sources, self.ends, self.conditions)
        self.first = self._first()

    def _first(self) -> State:
        """Return the state before the text. Inner look-arounds come first; outer ones find them."""
        here = Position([], at_start=True)
        for look in self.nfa.looks:
            begun = frozenset() if look.ahead else self._closed([(look.start, _FREE)], here)
            here.behind.append(begun)
        return self._state(self._closed([(0, _FREE)], here), here)

    def step(self, state: State, index: int) -> State | None:
        """Return the state after a code point of a class, None if no match can follow.

        ``index`` is the place of the class among those of ``parts``.
        """
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
        # Inner look-behinds first, as everywhere: outer ones and the whole depend on them.
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
        """Return the threads after a code point of class ``index``; those that cannot read it go.

        A thread in ``final`` stays there, whatever is read. ``known`` has what is left of each
        obligation after this code point, and is shared by all calls of one step.
        """
        moved: list[Thread] = []
        spend(len(threads))
        for at, obligations in threads:
            targets = self.moves.get((at, index), [])
            if at == final:
                targets = [*targets, at]
            if not targets:
                continue
            left = self._obligations_left(obligations, index, here, known)
            if left is not None:
                moved += [(target, left) for target in targets]
        return moved

    def _obligations_left(
        self,
        obligations: frozenset[Obligation],
        index: int,
        here: Position,
        known: dict[Obligation, Obligation | bool],
    ) -> frozenset[Obligation] | None:
        """Return what is left of the obligations after a code point, None if one is broken.

        Enters its results into ``known``, see ``_moved``.
        """
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
        """Return whether the look-around ``number`` with these threads holds, or what it needs.

        It is decided when no thread is left, or one has reached its end without obligations.
        """
        look = self.nfa.looks[number]
        if not threads:
            return look.negative
        if (look.final, _FREE) in threads:
            return not look.negative
        if here.at_end:  # where no thread has obligations any more
            return look.negative
        return Obligation(number, threads)

    def _condition(self, number: int, here: Position) -> Obligation | bool:
        """Return whether a look-around holds here, or what it still needs, see ``_settled``."""
        look = self.nfa.looks[number]
        if look.ahead:
            return self._settled(number, self._closed([(look.start, _FREE)], here), here)
        ended = frozenset(thread for thread in here.behind[number] if thread[0] == look.final)
        return self._settled(number, ended, here)

    def _fulfilled(self, threads: ThreadSet, here: Position) -> list[Thread]:
        """Return the threads whose obligations the text's end fulfils, without obligations."""
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
        """Return the threads with all that they reach without reading a code point, ``_reduced``.

        A thread that passes a look-around which is not settled here takes it along as an
        obligation. The look-behinds that it may meet must already be in ``here.behind``, see
        ``Position``.
        """
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
        """Remove threads that have all obligations of another one in the same state, and more.

        They add no text to those of the other one. Neither do threads in states from which nothing
        follows, which are removed as well.
        """
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
