"""Inlines rules into their callers, so that few calls are left to make while a text is read.

Most regular grammars become one automaton. A rule stays if it calls itself in the middle of its
text, or if its copies would be too large::

    e: e "+" p | p                        p: "(" e ")" | "1"        the rules
    e is inlined in p, as it does not call itself in the middle:
    p: "(" p ("+" p)* ")" | "1"           start: p ("+" p)*         p stays: it calls itself

Strongly connected components of rules are processed callees first. In a component rules are chosen
one at a time, the one that adds the fewest states first, until those that are left call themselves.

*Inlining* a rule at first changes only counts: what its callers would call, and how large they
would be. Its calls are *expanded*, all those in one caller at once, only where something must be
known exactly: whether the caller still calls itself, or how large it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from guided.grammar.network.components import strongly_connected_components
from guided.grammar.network.recursion import remove_ending_calls, remove_leading_calls
from guided.grammar.network.rule_automata import (
    RuleAutomata,
    called_rules,
    first_calls,
    substitute_calls,
)
from guided.grammar.network.symbols import Kind, edges_over
from guided.regular.dfa import Dfa
from guided.runtime.work_budget import spend, with_pauses

__all__ = ["LITTLE_GROWTH", "USUAL_GROWTH", "Growth", "inline_calls"]


class Growth(NamedTuple):
    """How much a grammar may grow by inlining."""

    states: int
    """The most states of a rule that is inlined at several sites."""
    copies: int
    """The most states of all copies of a rule together."""


USUAL_GROWTH, LITTLE_GROWTH = Growth(500, 5_000), Growth(50, 200)
_IN_THE_MIDDLE: Final = (True, True)
_MAX_COPIES: Final = 750
"""The most states of all possible copies of a terminal together, for it to be inlined at all."""
_FEW_COPIES: Final = 400
"""The most states of the copies of a terminal that are made."""


def inline_calls(
    automata: RuleAutomata,
    start: int,
    terminals: AbstractSet[int] = frozenset(),
    growth: Growth = USUAL_GROWTH,
) -> dict[int, Dfa]:
    """Return the automata of the start rule and of the rules that are still called.

    Neither the given nor the returned ones accept the empty text. Rules that are ``terminals`` call
    nothing, and are inlined everywhere unless there are too many copies. Raises LimitExceededError
    if a rule grows too large when its calls of itself are removed.
    """
    inlining = _Inlining(automata, terminals, growth)
    for component in strongly_connected_components(
        {rule: called_rules(dfa) for rule, dfa in automata.items()}
    ):
        inlining.inline_component(component)
    return inlining.expand_reachable(start)


class _CallSites:
    """The sites at which one rule calls another, with what is inlined in it expanded."""

    __slots__ = ("count", "kinds")

    def __init__(self, count: int, kinds: frozenset[tuple[bool, bool]]) -> None:
        self.count: Final = count
        """An upper bound on the copies of the other rule if it is inlined."""
        self.kinds: Final = kinds
        """For each kind of site whether text must precede the call, and whether it must follow."""

    def compose(self, inner: _CallSites, known: _CallSites | None) -> _CallSites:
        """Return the sites of a rule that the callee calls at ``inner``, if the callee is inlined.

        They are added to ``known``, the sites at which the rule is called here already.
        """
        # Text precedes the inner call if it precedes either of the two calls.
        kinds = {(a or b, c or d) for a, c in self.kinds for b, d in inner.kinds}
        if known is None:
            return _CallSites(self.count * inner.count, frozenset(kinds))
        return _CallSites(known.count + self.count * inner.count, known.kinds | kinds)


class _Inlining:
    """Decides which rules are inlined in their callers, and expands them.

    Decisions use only counts of call sites and upper bounds of sizes; automata are built only if a
    bound is too large to decide (``_can_inline``), and at the end (``expand_reachable``). Call
    ``inline_component`` for each component, callees first, and then ``expand_reachable`` once.
    ``calls``, ``sizes`` and ``pending`` are kept consistent by ``_inline`` and ``_set_automaton``.
    """

    def __init__(self, automata: RuleAutomata, terminals: AbstractSet[int], growth: Growth) -> None:
        self.growth = growth
        self.terminals = terminals
        """Expanded last, so that no pass works on copies of their many states."""
        self.automata = dict(automata)
        self.calls = {rule: _call_sites(dfa) for rule, dfa in automata.items()}
        """By rule, what it calls, as if all that is inlined in it were expanded."""
        self.pending: dict[int, set[int]] = {rule: set() for rule in automata}
        """By rule, what is inlined in it and still to be expanded, besides terminals."""
        self.sizes = {rule: len(dfa) for rule, dfa in automata.items()}
        """An upper bound on the states of each rule once it is expanded."""
        self.num_sites: dict[int, int] = {}
        """The number of calls of each rule in the given automata; not changed afterwards."""
        for dfa in automata.values():
            for _, rule, _ in edges_over(dfa, Kind.CALL):
                self.num_sites[rule] = self.num_sites.get(rule, 0) + 1
        self.inlined: set[int] = set()
        """Rules that are inlined in all their callers. Calls of them stay where a caller would grow
        much, and calls of terminals that ``_choose_terminals`` does not choose."""
        self.simplified: set[int] = set()
        """Rules that ``_simplify`` has done, and in which nothing was inlined since."""

    def inline_component(self, component: list[int]) -> None:
        """Choose the rules of a component to inline; all components that it calls are done."""
        for rule in component:
            for callee in [*self.calls[rule]]:
                if callee in self.inlined:
                    self._inline(rule, callee)
        # Smaller ones first: what is inlined in a rule makes it larger.
        left = set(component)
        while left:
            spend(len(left) // 4)
            candidates = [rule for rule in left if self._can_inline(rule)]
            if candidates:
                rule = min(candidates, key=self._growth_key)
                self.inlined.add(rule)
                left.remove(rule)
                for caller in component:
                    if caller != rule and rule in self.calls[caller]:
                        self._inline(caller, rule)
            else:
                # One rule is kept as a callee, so that others, which call each other only through
                # it, may be inlined: the one with the most call sites, as it has the most copies.
                left.remove(max(left, key=lambda rule: (self.num_sites.get(rule, 0), -rule)))

    def _inline(self, rule: int, callee: int) -> None:
        """Inline a callee in a rule that calls it: in the counts, its calls take its place.

        Only for a callee in ``inlined``, which no longer calls itself. ``_expand`` does the rest.
        """
        calls = self.calls[rule]
        sites = calls.pop(callee)
        spend(1 + len(self.calls[callee]) // 4)
        for inner, there in self.calls[callee].items():
            calls[inner] = sites.compose(there, calls.get(inner))
        self.sizes[rule] += sites.count * self.sizes[callee]
        if callee not in self.terminals:
            self.pending[rule].add(callee)
            self.simplified.discard(rule)

    def _growth_key(self, rule: int) -> tuple[int, int, int]:
        """Return a sort key of rules: those first that add the fewest states to their callers."""
        size = self.sizes[rule]
        return (self.num_sites.get(rule, 0) - 1) * size, size, rule

    def _can_inline(self, rule: int) -> bool:
        """Return whether a rule no longer calls itself and is small enough to copy to its callers.

        If the counts do not decide, the rule is expanded and counted again. Terminals always may:
        ``_choose_terminals`` decides at the end where they are copied. A rule with one call site
        is moved rather than copied, so it may have any size.
        """
        if rule in self.terminals:
            return True
        itself = self.calls[rule].get(rule)
        if itself is not None:
            if _IN_THE_MIDDLE in itself.kinds:
                return False
            # It calls itself only at its ends: once expanded, most of these calls become loops.
            self._expand(rule)
            if rule in self.calls[rule]:
                return False
        # Sizes are upper bounds, so only a rule that seems too large has to be expanded.
        if self.num_sites.get(rule, 0) > 1 and not self._is_small(rule):
            self._expand(rule)
            return self._is_small(rule)
        return True

    def _is_small(self, rule: int) -> bool:
        """Return whether copies of a rule at all its call sites stay within ``growth``."""
        size, copies = self.sizes[rule], self.num_sites.get(rule, 0) - 1
        return size <= self.growth.states and copies * size <= self.growth.copies

    def _expand(self, rule: int) -> None:
        """Expand all that is inlined in a rule, in inlined rules with several call sites first.

        Those with one call site are only expanded in place, which saves an automaton.
        """
        for each in _postorder(rule, self.pending):
            if each == rule or self.num_sites[each] > 1:
                self._simplify(each)

    def _simplify(self, rule: int) -> None:
        """Expand a rule, and turn calls of itself at its ends into loops.

        Does nothing if nothing was inlined since the last time (``simplified``).
        """
        if rule in self.simplified:
            return
        dfa = self._substitute(self.automata[rule], self.pending[rule])
        if rule in first_calls(dfa):
            dfa = remove_leading_calls(rule, [rule], {rule: dfa})
        self._set_automaton(rule, remove_ending_calls(rule, dfa))
        # Its calls were counted anew, so terminals have to be inlined in the counts again.
        for terminal in self.calls[rule].keys() & self.terminals:
            self._inline(rule, terminal)
        self.simplified.add(rule)

    def _set_automaton(self, rule: int, dfa: Dfa) -> None:
        """Set the automaton of a rule, in which nothing is left to be expanded, and count anew."""
        self.automata[rule] = dfa
        self.calls[rule], self.sizes[rule], self.pending[rule] = _call_sites(dfa), len(dfa), set()

    def _substitute(self, dfa: Dfa, rules: AbstractSet[int]) -> Dfa:
        """Return an automaton with calls of these rules expanded, where it does not grow much."""
        if not rules:
            return dfa
        spend(100)
        whole = substitute_calls(dfa, rules, self.automata, self.pending)
        if whole is None:
            # Together they grow too large: one by one, where a rule that is too large stays called.
            for callee in sorted(rules):
                whole = substitute_calls(dfa, {callee}, self.automata, self.pending)
                dfa = dfa if whole is None else whole
            return dfa
        return whole

    def expand_reachable(self, start: int) -> dict[int, Dfa]:
        """Return the automata of the rules reachable from the start rule, all of them expanded.

        Terminals are expanded last, in all rules at once; see ``_choose_terminals``.
        """
        order = [start]
        found = {start}
        for rule in order:
            self._expand(rule)
            for callee in called_rules(self.automata[rule]) - found:
                order.append(callee)
                found.add(callee)
        for rule, terminals in self._choose_terminals(order).items():
            self._set_automaton(rule, self._substitute(self.automata[rule], terminals))
        # A rule that would have grown too much by a terminal still calls it.
        left = {callee for rule in order for callee in called_rules(self.automata[rule])}
        return {rule: self.automata[rule] for rule in order if rule == start or rule in left}

    def _choose_terminals(self, rules: list[int]) -> dict[int, set[int]]:
        """Return by rule the terminals to expand in it; smallest copies are chosen first.

        A copy saves calls while a text is read, and costs states. A terminal whose copies would
        have more than _MAX_COPIES states in total stays a call everywhere. Ties are broken by the
        number of the rule, so that the choice is deterministic.
        """
        copies = sorted(
            (sites.count * self.sizes[callee], rule, callee)
            for rule in rules
            for callee, sites in _call_sites(self.automata[rule]).items()
            if callee in self.terminals
        )
        total: dict[int, int] = {}
        for states, _, terminal in copies:
            total[terminal] = total.get(terminal, 0) + states
        copied: dict[int, int] = {}
        chosen: dict[int, set[int]] = {}
        for states, rule, terminal in copies:
            copied[terminal] = copied.get(terminal, 0) + states
            if total[terminal] <= _MAX_COPIES and copied[terminal] <= _FEW_COPIES:
                chosen.setdefault(rule, set()).add(terminal)
        return chosen


def _call_sites(dfa: Dfa) -> dict[int, _CallSites]:
    """Return the call sites of an automaton, by callee.

    Calls with the same target count as one site: they share one copy of the callee.
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


def _postorder(root: int, edges: Mapping[int, AbstractSet[int]]) -> list[int]:
    """Return the nodes reachable from ``root``, in postorder: each after all that it leads to.

    For acyclic graphs, such as ``pending``. Not recursive, as chains may be long.
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
