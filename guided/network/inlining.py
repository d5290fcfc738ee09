"""Calls replaced by the rules they call, so that few are left to be made while a text is read.

What is regular at heart becomes one plain automaton. Calls stay where a rule calls itself in the
middle of its text, and where copies would grow too large. Inside a component of rules that call
each other, rules are taken in one at a time until those that are left call themselves.
"""

from __future__ import annotations

from guided.automata.dfa import Dfa
from guided.automata.fuel import spend
from guided.network.components import components
from guided.network.letters import call_edges, called
from guided.network.recursion import (
    begins_with,
    substituted,
    without_ending_calls,
    without_leading_calls,
)

__all__ = ["inlined"]

_MAX_STATES = 500
"""States of a rule that is taken in."""
_MAX_GROWTH = 5_000
"""States of all copies of a rule together."""


def inlined(automata: dict[int, Dfa], start: int) -> dict[int, Dfa]:
    """The automata of the start rule and of those that are still called.

    None of the given ones accepts the empty text, and neither does any of these.
    """
    work = _Inlining(dict(automata))
    for component in components({rule: called(dfa) for rule, dfa in automata.items()}):
        work.settle(component)
    return work.reached(start)


class _Inlining:
    def __init__(self, automata: dict[int, Dfa]) -> None:
        self.automata = automata
        self.calls = {rule: called(dfa) for rule, dfa in automata.items()}
        self.sites: dict[int, int] = {}
        """How many places rules are called from."""
        for dfa in automata.values():
            for _, rule, _ in call_edges(dfa):
                self.sites[rule] = self.sites.get(rule, 0) + 1
        self.taken_in: set[int] = set()
        """Rules that their callers take in."""

    def settle(self, component: list[int]) -> None:
        """Simplify the rules of a component; all that they call outside of it is settled."""
        for rule in component:
            self._simplify(rule, self.taken_in)
        # Smaller first: what is taken in late brings along what was taken in before.
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
                        self._simplify(caller, {rule})
            else:
                # It stays a rule that is called, so it holds nobody in a circle any more.
                left.remove(max(left, key=lambda rule: (self.sites.get(rule, 0), -rule)))

    def _simplify(self, rule: int, taken_in: set[int]) -> None:
        dfa = self.automata[rule]
        spend(100)
        bodies = {callee: self.automata[callee] for callee in self.calls[rule] & taken_in}
        # Calls that cannot be taken in together may be one by one; what is left stays a call.
        taken = substituted(dfa, bodies) if bodies else dfa
        if taken is None:
            for callee, body in bodies.items():
                taken = substituted(dfa, {callee: body})
                dfa = dfa if taken is None else taken
        else:
            dfa = taken
        if rule in begins_with(dfa):
            dfa = without_leading_calls(rule, [rule], {rule: dfa})
        self.automata[rule] = dfa = without_ending_calls(rule, dfa)
        self.calls[rule] = called(dfa)

    def _growth(self, rule: int) -> tuple[int, int, int]:
        """What comes first costs least."""
        size = len(self.automata[rule])
        return (self.sites.get(rule, 0) - 1) * size, size, rule

    def _may_be_taken_in(self, rule: int) -> bool:
        dfa = self.automata[rule]
        if rule in self.calls[rule]:
            return False
        sites = self.sites.get(rule, 0)
        return sites <= 1 or (len(dfa) <= _MAX_STATES and (sites - 1) * len(dfa) <= _MAX_GROWTH)

    def reached(self, start: int) -> dict[int, Dfa]:
        """The start rule and the rules that are called from it on."""
        found: dict[int, Dfa] = {}
        waiting = [start]
        while waiting:
            rule = waiting.pop()
            if rule not in found:
                found[rule] = self.automata[rule]
                waiting += self.calls[rule]
        return found
