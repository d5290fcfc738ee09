"""Calls replaced by the rules they call, so that few are left to make while a text is read.

A grammar that is regular becomes one plain automaton. Calls stay if a rule calls itself in the
middle of its text, or if copies would grow too large::

    e: e "+" p | p                        p: "(" e ")" | "1"        the rules
    p takes in e, which has no call in the middle:
    p: "(" p ("+" p)* ")" | "1"           start: p ("+" p)*         p stays: it is in its own middle

This is done by components of rules that call each other, callees first. In a component rules are
taken in one at a time, those that grow least first, until the remaining ones call themselves. Two
steps keep it cheap. First only numbers are kept: what a rule would call, and how large it would be,
if all that it takes in were *written out*. A rule is written out, with all of that at once, where
two things have to be known exactly: whether it still calls itself, and how large it really is.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from guided.grammar.network.components import components
from guided.grammar.network.recursion import without_ending_calls, without_leading_calls
from guided.grammar.network.rule_automata import (
    RuleAutomata,
    called_rules,
    first_calls,
    substituted,
)
from guided.grammar.network.symbols import Kind, edges_over
from guided.regular.dfa import Dfa
from guided.runtime.fuel import spend, with_pauses

__all__ = ["LITTLE_GROWTH", "USUAL_GROWTH", "Growth", "inlined"]


class Growth(NamedTuple):
    """How much a grammar may grow where rules are taken in."""

    states: int
    """States of a rule that is taken in from several sites."""
    copies: int
    """States of all copies of a rule together."""


USUAL_GROWTH, LITTLE_GROWTH = Growth(500, 5_000), Growth(50, 200)
_IN_THE_MIDDLE: Final = (True, True)
_MAX_COPIES: Final = 750
"""States of all copies of a terminal together, if some are written out."""
_FEW_COPIES: Final = 400
"""States of the copies that are written out."""


def inlined(
    automata: RuleAutomata,
    start: int,
    terminals: AbstractSet[int] = frozenset(),
    growth: Growth = USUAL_GROWTH,
) -> dict[int, Dfa]:
    """Return the automata of the start rule and of those that are still called.

    None of the given ones accepts the empty text, and neither does any of these. Rules that are
    ``terminals`` call nothing, and are taken in wherever they are called unless they are copied too
    often. Raises LimitExceededError if a rule grows too large when its calls of itself are
    removed.
    """
    work = _Inlining(automata, terminals, growth)
    for component in components({rule: called_rules(dfa) for rule, dfa in automata.items()}):
        work.settle(component)
    return work.reached(start)


class _CallSites:
    """Where a rule calls another one, when all that the rule takes in is written out."""

    __slots__ = ("count", "kinds")

    def __init__(self, count: int, kinds: frozenset[tuple[bool, bool]]) -> None:
        self.count: Final = count
        """The greatest number of copies of the other rule."""
        self.kinds: Final = kinds
        """For each site whether something must stand before the call, and after it."""

    def through(self, inner: _CallSites, known: _CallSites | None) -> _CallSites:
        """Return the sites of a rule that the callee here calls at ``inner``, added to ``known``.

        They are for a callee that will be written out: what it calls is then called here.
        """
        # Something stands before the inner call if it does before either of the two calls.
        kinds = {(a or b, c or d) for a, c in self.kinds for b, d in inner.kinds}
        if known is None:
            return _CallSites(self.count * inner.count, frozenset(kinds))
        return _CallSites(known.count + self.count * inner.count, known.kinds | kinds)


class _Inlining:
    """Decides which rules are taken in by their callers, and writes them out.

    Decisions use only counts of call sites and upper bounds of sizes; automata are built only if a
    bound is too large to decide (``_may_be_taken_in``), and at the end (``reached``). ``settle`` is
    called for each component, callees first, and then ``reached`` once. ``calls``, ``sizes`` and
    ``takes`` are by rule and agree: ``_take`` and ``_replace`` change all three.
    """

    def __init__(self, automata: RuleAutomata, terminals: AbstractSet[int], growth: Growth) -> None:
        self.growth = growth
        self.terminals = terminals
        """They are written out last, so that no pass works on copies of their many states."""
        self.automata = dict(automata)
        self.calls = {rule: _call_sites(dfa) for rule, dfa in automata.items()}
        """By rule, what it calls when all that it takes in is written out."""
        self.takes: dict[int, set[int]] = {rule: set() for rule in automata}
        """By rule, what still has to be written out in it, besides terminals."""
        self.sizes = {rule: len(dfa) for rule, dfa in automata.items()}
        """The greatest number of states, by rule."""
        self.num_sites: dict[int, int] = {}
        """The number of calls of each rule in all that was given; not changed afterwards."""
        for dfa in automata.values():
            for _, rule, _ in edges_over(dfa, Kind.CALL):
                self.num_sites[rule] = self.num_sites.get(rule, 0) + 1
        self.taken_in: set[int] = set()
        """Rules that their callers take in."""
        self.written: set[int] = set()
        """Rules that are as simple as possible with nothing more taken in."""

    def settle(self, component: list[int]) -> None:
        """Take rules of a component in; all that they call outside it is settled."""
        for rule in component:
            for callee in [*self.calls[rule]]:
                if callee in self.taken_in:
                    self._take(rule, callee)
        # Smaller ones first: a rule taken in late is as large as all that it took in itself.
        left = set(component)
        while left:
            spend(len(left) // 4)
            free = [rule for rule in left if self._may_be_taken_in(rule)]
            if free:
                rule = min(free, key=self._growth)
                self.taken_in.add(rule)
                left.remove(rule)
                for caller in component:
                    if caller != rule and rule in self.calls[caller]:
                        self._take(caller, rule)
            else:
                # It stays a rule that is called, so others may be taken in that call each other
                # only through it. Most call sites first: they would be most copies.
                left.remove(max(left, key=lambda rule: (self.num_sites.get(rule, 0), -rule)))

    def _take(self, rule: int, callee: int) -> None:
        """Have a callee written out in a rule at some point; the rule must call it.

        Only for a callee in ``taken_in``, which no longer calls itself. In the counts, what it
        calls then takes its place.
        """
        calls = self.calls[rule]
        sites = calls.pop(callee)
        spend(1 + len(self.calls[callee]) // 4)
        for inner, there in self.calls[callee].items():
            calls[inner] = sites.through(there, calls.get(inner))
        self.sizes[rule] += sites.count * self.sizes[callee]
        if callee not in self.terminals:
            self.takes[rule].add(callee)
            self.written.discard(rule)

    def _growth(self, rule: int) -> tuple[int, int, int]:
        """Return an order of rules: those first that add the fewest states to their callers."""
        size = self.sizes[rule]
        return (self.num_sites.get(rule, 0) - 1) * size, size, rule

    def _may_be_taken_in(self, rule: int) -> bool:
        """Return whether a rule no longer calls itself and is small enough to copy to its callers.

        If the counts do not decide, the rule is written out, and they are counted again.
        Terminals always may: ``_spelled_out`` decides at the end how often they are copied. And a
        rule with one call site is not copied but moved, so it may have any size.
        """
        if rule in self.terminals:
            return True
        itself = self.calls[rule].get(rule)
        if itself is not None:
            if _IN_THE_MIDDLE in itself.kinds:
                return False
            # It calls itself only at its ends. Written out, those calls mostly become loops.
            self._write_out(rule)
            if rule in self.calls[rule]:
                return False
        # Sizes are upper bounds, so only what seems too large has to be written out to be known.
        if self.num_sites.get(rule, 0) > 1 and not self._is_small(rule):
            self._write_out(rule)
            return self._is_small(rule)
        return True

    def _is_small(self, rule: int) -> bool:
        """Return whether copies of a rule at all its call sites stay within the growth allowed."""
        size, copies = self.sizes[rule], self.num_sites.get(rule, 0) - 1
        return size <= self.growth.states and copies * size <= self.growth.copies

    def _write_out(self, rule: int) -> None:
        """Write a rule out with all it takes in; first those of these rules that are copied.

        Those with one call site are only written out in place, which saves an automaton.
        """
        for each in _inner_first(rule, self.takes):
            if each == rule or self.num_sites[each] > 1:
                self._simplify(each)

    def _simplify(self, rule: int) -> None:
        """Write a rule out, with calls of itself at its ends made loops.

        Does nothing if nothing was taken in since the last time (``written``).
        """
        if rule in self.written:
            return
        dfa = self._with(self.automata[rule], self.takes[rule])
        if rule in first_calls(dfa):
            dfa = without_leading_calls(rule, [rule], {rule: dfa})
        self._replace(rule, without_ending_calls(rule, dfa))
        # What it calls was counted again: count terminals as taken in again.
        for terminal in self.calls[rule].keys() & self.terminals:
            self._take(rule, terminal)
        self.written.add(rule)

    def _replace(self, rule: int, dfa: Dfa) -> None:
        """Give a rule another automaton, in which nothing is left to be written out."""
        self.automata[rule] = dfa
        self.calls[rule], self.sizes[rule], self.takes[rule] = _call_sites(dfa), len(dfa), set()

    def _with(self, dfa: Dfa, taken: AbstractSet[int]) -> Dfa:
        """Return an automaton with what it takes in, as far as that does not make it grow much."""
        if not taken:
            return dfa
        spend(100)
        whole = substituted(dfa, taken, self.automata, self.takes)
        if whole is None:
            # Calls that cannot be taken in together may be one by one; what is left stays a call.
            for callee in sorted(taken):
                whole = substituted(dfa, {callee}, self.automata, self.takes)
                dfa = dfa if whole is None else whole
            return dfa
        return whole

    def reached(self, start: int) -> dict[int, Dfa]:
        """Return the start rule and the rules that are called from it on, all of them written out.

        Terminals are written out last, in all rules at once; see ``_spelled_out``.
        """
        order = [start]
        found = {start}
        for rule in order:
            self._write_out(rule)
            for callee in called_rules(self.automata[rule]) - found:
                order.append(callee)
                found.add(callee)
        for rule, terminals in self._spelled_out(order).items():
            self._replace(rule, self._with(self.automata[rule], terminals))
        # A rule that would have grown too much with a terminal still calls it.
        left = {callee for rule in order for callee in called_rules(self.automata[rule])}
        return {rule: self.automata[rule] for rule in order if rule == start or rule in left}

    def _spelled_out(self, rules: list[int]) -> dict[int, set[int]]:
        """Return by rule the terminals to write out in it, first those that copy the fewest states.

        A copy saves calls while a text is read, and costs states. A terminal whose copies would
        have more than _MAX_COPIES states in total stays a call everywhere. Among equals the lowest
        rule comes first, so that the choice is always the same.
        """
        copies = sorted(
            (sites.count * self.sizes[callee], rule, callee)
            for rule in rules
            for callee, sites in _call_sites(self.automata[rule]).items()
            if callee in self.terminals
        )
        in_all: dict[int, int] = {}
        for states, _, terminal in copies:
            in_all[terminal] = in_all.get(terminal, 0) + states
        copied: dict[int, int] = {}
        chosen: dict[int, set[int]] = {}
        for states, rule, terminal in copies:
            copied[terminal] = copied.get(terminal, 0) + states
            if in_all[terminal] <= _MAX_COPIES and copied[terminal] <= _FEW_COPIES:
                chosen.setdefault(rule, set()).add(terminal)
        return chosen


def _call_sites(dfa: Dfa) -> dict[int, _CallSites]:
    """Return by rule the sites where an automaton calls it.

    Calls that lead to the same state count as one: one copy of the rule serves them all.
    """
    targets: dict[int, set[int]] = {}
    kinds: dict[int, set[tuple[bool, bool]]] = {}
    accepting: list[bool] = dfa.accepting.tolist()
    for source, rule, target in with_pauses(edges_over(dfa, Kind.CALL)):
        targets.setdefault(rule, set()).add(target)
        kinds.setdefault(rule, set()).add((source != 0, not accepting[target]))
    return {
        rule: _CallSites(len(targets[rule]), frozenset(kinds[rule]))
        for rule in with_pauses(targets)
    }


def _inner_first(root: int, edges: Mapping[int, AbstractSet[int]]) -> list[int]:
    """Return the nodes that a node leads to, itself last: each comes after all that it leads to.

    For graphs without circles, such as ``takes``. A stack of our own, as chains may be long.
    """
    order: list[int] = []
    seen = {root}
    path = [(root, iter(sorted(edges[root])))]
    while path:
        node, targets = path[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                path.append((target, iter(sorted(edges[target]))))
                break
        else:
            order.append(node)
            path.pop()
    return order
