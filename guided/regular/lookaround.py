"""The subset construction for expressions with look-around.

Look-around is handled in one of three ways, each the cheapest where it applies:

- at the start of the whole text a look-ahead is a condition on all of it, so the automaton of the
  rest and that of the condition are combined (``lift_leading_lookahead``);
- anywhere else inside a text it is evaluated along with the text (``LookaroundSubsets``);
- at an edge of a terminal it is about the text outside, so it is first separated from the terminal
  (``guided.regular.patterns.terminal_edges``).

``LookaroundSubsets`` runs look-behinds from the start of the text on, so at each place it is known
whether they hold. A look-ahead is decided later: a *thread* that passed one carries it on as an
*obligation*, itself a set of threads, which is fulfilled as soon as one of them reaches the end of
the look-ahead. So a state of the result is a set of threads, each a state of the NFA with the
obligations that it has to fulfil::

    ^(?=.*b)a*    after "a":  {(a*, {.*b})}       after "b":  {}, since a* does not read b

Look-around may be nested in any way, but parsers refuse a negative look-behind that contains ``$``:
it has to be decided where it stands, before it is known whether the text ends there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from guided.regular.expression import (
    ANYTHING,
    Alternate,
    Chars,
    Concat,
    End,
    Intersection,
    Look,
    Regular,
    Repeat,
    Start,
)
from guided.regular.nfa import Edges, Nfa
from guided.regular.partition import Partition
from guided.runtime.work_budget import spend

__all__ = ["LookaroundSubsets", "lift_leading_lookahead"]


class Obligation(NamedTuple):
    """One of these threads has to reach the end of the look-around; or none, if it is negative."""

    look: int
    threads: ThreadSet


_Item = TypeVar("_Item")
Thread: TypeAlias = tuple[int, frozenset[Obligation]]
ThreadSet: TypeAlias = frozenset[Thread]

_NO_OBLIGATIONS: Final[frozenset[Obligation]] = frozenset()
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
"""The threads of the whole expression, ``Position.behind``, and whether the text is empty."""

_MATCHED: Final[State] = (frozenset({(-1, _NO_OBLIGATIONS)}), (), False)
"""The state after a match that was searched for: whatever follows is accepted."""


def lift_leading_lookahead(regular: Regular, *, search: bool) -> Regular:
    """Return the expression, with a look-ahead at its start turned into an ``Intersection``.

    ``^(?=x)y`` becomes ``^y`` and ``^x.*$``, both searched for: two automata side by side take less
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
    ahead = _append_anything(first.item)
    # ``_append_anything`` is about whole texts, so a search has to be for the whole text.
    whole = Concat((Start(), ahead, End())) if search else ahead
    return Intersection(Concat(rest), whole, first.negative)


def _append_anything(regular: Regular) -> Regular:
    """Return the expression followed by any text, which a look-ahead at its end may be about.

    Argument and result are matched against whole texts; the caller anchors the result for a search.
    The last line would be right for every expression; the other cases only remove look-around at
    the end. All other options share one ``ANYTHING``: with one each, the subsets would tell apart
    which of the options matched.
    """
    match regular:
        case Concat(parts) if parts and _ends_in_look(parts[-1]):
            return Concat((*parts[:-1], _append_anything(parts[-1])))
        case Alternate(options) if any(map(_ends_in_look, options)):
            looking = [_append_anything(each) for each in options if _ends_in_look(each)]
            others = tuple([each for each in options if not _ends_in_look(each)])
            return Alternate((*looking, Concat((Alternate(others), ANYTHING))))
        case Look(item, ahead=True, negative=False):
            return _append_anything(item)
        case Look(Chars(chars), ahead=True, negative=True):
            # (?!c).* -> ([^c].*)?
            return Repeat(Concat((Chars(~chars), ANYTHING)), 0, 1)
    return Concat((regular, ANYTHING))


def _ends_in_look(regular: Regular) -> bool:
    """Return whether look-around is the last part of an expression, or of one of its options."""
    match regular:
        case Concat(parts):
            return bool(parts) and _ends_in_look(parts[-1])
        case Alternate(options):
            return any(map(_ends_in_look, options))
    return isinstance(regular, Look)


class LookaroundSubsets:
    """The subset construction over one NFA, step by step.

    With ``search`` a match may begin anywhere. By state of the NFA, ``epsilons``, ``starts`` and
    ``ends`` have the targets of its edges that read nothing, and ``conditions`` the look-around and
    the target of each edge with one. ``moves`` has targets by state and class. ``first`` is the
    state before the text.
    """

    def __init__(self, nfa: Nfa, parts: Partition, *, search: bool) -> None:
        """``parts`` are the classes of ``nfa.sets``, in their order; more sets may follow."""
        self.nfa = nfa
        self.search = search
        self.epsilons = _targets_by_source(nfa.epsilons)
        self.starts = _targets_by_source(nfa.starts)
        self.ends = _targets_by_source(nfa.ends)
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
        self._shared: dict[frozenset[Any], frozenset[Any]] = {}
        """Sets of obligations and threads, each once. They nest, and comparing copies of one takes
        time exponential in the depth."""
        # States of the NFA that subsets keep; nothing follows from the others.
        self.important = {nfa.final, *(look.final for look in nfa.looks)}
        self.important.update(sources, self.ends, self.conditions)
        self.first = self._start_state()

    def _start_state(self) -> State:
        """Return the state before the text."""
        here = Position([], at_start=True)
        for look in self.nfa.looks:
            threads = (
                frozenset() if look.ahead else self._close([(look.start, _NO_OBLIGATIONS)], here)
            )
            here.behind.append(threads)
        return self._make_state(self._close([(0, _NO_OBLIGATIONS)], here), here)

    def step(self, state: State, index: int) -> State | None:
        """Return the state after a code point of a class, None if no thread is left.

        ``index`` is the index of the class in ``parts.classes``. A state that is returned may still
        be one that no match follows; the caller removes these when it minimizes.
        """
        if state == _MATCHED:
            return _MATCHED
        threads, behind, _ = state
        here = Position([])
        cache: dict[Obligation, Obligation | bool] = {}
        for look, before in zip(self.nfa.looks, behind, strict=True):
            if look.ahead:
                here.behind.append(before)
                continue
            # A look-behind may begin anywhere.
            moved = [*self._move(before, index, here, cache), (look.start, _NO_OBLIGATIONS)]
            here.behind.append(self._close(moved, here))
        final = self.nfa.final if self.search else None
        moved = self._move(threads, index, here, cache, final)
        if self.search:
            moved.append((0, _NO_OBLIGATIONS))
        reached = self._close(moved, here)
        return self._make_state(reached, here) if reached else None

    def label(self, state: State) -> int:
        """Return 0 if the text may end in this state, else -1."""
        if state == _MATCHED:
            return 0
        threads, behind, at_start = state
        here = Position([], at_start=at_start, at_end=True)
        # Inner look-behinds first, as everywhere: outer ones and the whole depend on them.
        for before in behind:
            here.behind.append(self._close(self._threads_at_end(before, here), here))
        ended = self._close(self._threads_at_end(threads, here), here)
        return 0 if any(at == self.nfa.final for at, _ in ended) else -1

    def _make_state(self, threads: ThreadSet, here: Position) -> State:
        """Return the state with these threads; after a match that is searched for, _MATCHED."""
        if self.search and (self.nfa.final, _NO_OBLIGATIONS) in threads:
            return _MATCHED
        return threads, tuple(here.behind), here.at_start

    def _move(
        self,
        threads: ThreadSet,
        index: int,
        here: Position,
        cache: dict[Obligation, Obligation | bool],
        final: int | None = None,
    ) -> list[Thread]:
        """Return the threads after a code point of class ``index``; some cannot read it.

        A thread in ``final``, from which nothing leads on, stays there, whatever is read: what it
        carries may still be undecided. ``cache`` has what is left of each obligation after this
        code point, and is shared by all calls of one step.
        """
        moved: list[Thread] = []
        spend(len(threads))
        for at, obligations in threads:
            targets = [at] if at == final else self.moves.get((at, index), [])
            if not targets:
                continue
            left = self._obligations_left(obligations, index, here, cache)
            if left is not None:
                moved += [(target, left) for target in targets]
        return moved

    def _obligations_left(
        self,
        obligations: frozenset[Obligation],
        index: int,
        here: Position,
        cache: dict[Obligation, Obligation | bool],
    ) -> frozenset[Obligation] | None:
        """Return what is left of the obligations after a code point, None if one is broken.

        Adds its results to ``cache``, see ``_move``.
        """
        left: list[Obligation] = []
        for obligation in obligations:
            if obligation not in cache:
                look, threads = obligation
                moved = self._move(threads, index, here, cache, self.nfa.looks[look].final)
                cache[obligation] = self._evaluate(look, self._close(moved, here), here)
            result = cache[obligation]
            if result is False:
                return None
            if result is not True:
                left.append(result)
        return self._share(frozenset(left))

    def _share(self, items: frozenset[_Item]) -> frozenset[_Item]:
        """Return the set that equals ``items`` and that all others refer to."""
        return self._shared.setdefault(items, items)

    def _evaluate(self, number: int, threads: ThreadSet, here: Position) -> Obligation | bool:
        """Return whether the look-around ``number`` holds, or the obligation on which that depends.

        ``threads`` are its threads. It is decided when none is left, or one has reached its end
        without obligations.
        """
        look = self.nfa.looks[number]
        if not threads:
            return look.negative
        if (look.final, _NO_OBLIGATIONS) in threads:
            return not look.negative
        if here.at_end:  # there, no thread has obligations any more
            return look.negative
        return Obligation(number, self._share(threads))

    def _evaluate_from_here(self, number: int, here: Position) -> Obligation | bool:
        """Return what ``_evaluate`` does for a look-around that is met at this position.

        A look-ahead begins here; a look-behind has to end here.
        """
        look = self.nfa.looks[number]
        if look.ahead:
            return self._evaluate(number, self._close([(look.start, _NO_OBLIGATIONS)], here), here)
        finished = frozenset(thread for thread in here.behind[number] if thread[0] == look.final)
        return self._evaluate(number, finished, here)

    def _threads_at_end(self, threads: ThreadSet, here: Position) -> list[Thread]:
        """Return the threads whose obligations the end of the text fulfils, without obligations."""
        return [
            (at, _NO_OBLIGATIONS)
            for at, obligations in threads
            if all(self._holds_at_end(obligation, here) for obligation in obligations)
        ]

    def _holds_at_end(self, obligation: Obligation, here: Position) -> bool:
        """Return whether an obligation is fulfilled if the text ends here."""
        look = self.nfa.looks[obligation.look]
        ended = self._close(self._threads_at_end(obligation.threads, here), here)
        return any(at == look.final for at, _ in ended) != look.negative

    def _close(self, threads: Iterable[Thread], here: Position) -> ThreadSet:
        """Return the epsilon closure of the threads, without redundant ones.

        A thread that passes a look-around which is not decided here carries it on as an obligation.
        The look-behinds that it may meet must already be in ``here.behind``, see ``Position``.
        """
        seen = set(threads)
        stack = list(seen)
        while stack:
            at, obligations = stack.pop()
            spend(2 + len(obligations))
            reached = [(target, obligations) for target in self.epsilons.get(at, ())]
            if here.at_start:
                reached += [(target, obligations) for target in self.starts.get(at, ())]
            if here.at_end:
                reached += [(target, obligations) for target in self.ends.get(at, ())]
            for look, target in self.conditions.get(at, ()):
                result = self._evaluate_from_here(look, here)
                if result is True:
                    reached.append((target, obligations))
                elif result is not False:
                    reached.append((target, self._share(obligations | {result})))
            for thread in reached:
                if thread not in seen:
                    seen.add(thread)
                    stack.append(thread)
        return self._remove_redundant(seen)

    def _remove_redundant(self, threads: set[Thread]) -> ThreadSet:
        """Return the threads without those that add no texts.

        These are threads with all obligations of another one in the same state, and more, and
        threads in states from which nothing follows.
        """
        by_state: dict[int, list[frozenset[Obligation]]] = {}
        for at, obligations in threads:
            if at in self.important:
                by_state.setdefault(at, []).append(obligations)
        spend(sum(len(found) ** 2 for found in by_state.values() if len(found) > 1))
        return frozenset(
            (at, obligations)
            for at, found in by_state.items()
            for obligations in found
            if len(found) == 1 or not any(other < obligations for other in found)
        )


def _targets_by_source(edges: Edges) -> dict[int, list[int]]:
    targets: dict[int, list[int]] = {}
    for source, target in zip(edges.sources, edges.targets, strict=True):
        targets.setdefault(source, []).append(target)
    return targets
