"""Calls of rules that begin in a configuration, before another byte is read."""

from __future__ import annotations

import heapq
from typing import TypeAlias

from guided.grammar.machine.continuations import END, Continuations
from guided.grammar.machine.grammar_rows import GrammarRows
from guided.grammar.network.first_and_follow import call_order
from guided.grammar.network.network import Network
from guided.regular.dfa import DEAD
from guided.runtime.fuel import spend

__all__ = ["Calls"]

_BegunCall: TypeAlias = tuple[int, list[tuple[int, int]]]
"""The first state of a rule, and the states that call it with those that each call returns to."""


class Calls:
    """Adds calls to configurations, and knows for each state what else can happen there.

    What is kept stays right, as the network never changes.
    """

    def __init__(self, network: Network, continuations: Continuations, rows: GrammarRows) -> None:
        self._network = network
        self._continuations = continuations
        self._ranks = {network.starts[rule]: rank for rank, rule in enumerate(call_order(network))}
        """The place of a rule in ``call_order``, by its first state."""
        # Plain lists: transitions look up few states, and numpy takes long for a single one.
        reads = (network.moves != DEAD).any(axis=1)
        self.accepting: list[bool] = network.accepting.tolist()
        """Whether its rule may end in a state, by state."""
        # A state that neither reads nor ends only has calls, which have begun in its row; or it
        # stands for a hole, see ``CompositeCalls.is_parse``.
        self.is_kept: list[bool] = (network.accepting | reads).tolist()
        """Whether a state is kept in a row, by state."""
        self.only_ends: list[bool] = (network.accepting & ~reads & ~rows.calling).tolist()
        """Whether nothing can happen in a state but the end of the rule, by state."""
        self._begun: dict[tuple[int, ...], list[_BegunCall]] = {}
        """The calls that begin in some states, by these."""

    def with_calls(self, configuration: dict[int, int]) -> dict[int, int]:
        """Return a configuration with the rules that are called in it before another byte is read.

        Not for an UNKNOWN one. All callers of a rule share its continuation, which has a frame for
        each state that one of the calls returns to. ``_found_begun`` returns the rules in an order
        in which the continuations of all callers are known before they are looked up in ``closed``.
        Which calls begin depends only on the states, so it is kept by these, in the order in which
        they come, and only their continuations are computed each time. Returns a new dict.
        """
        spend(5 + len(configuration))
        key = tuple(configuration)
        begun = self._begun.get(key)
        if begun is None:
            begun = self._begun[key] = self._found_begun(key)
        continuations, closed = self._continuations, dict(configuration)
        for start, callers in begun:
            frames: dict[int, int] = {}
            for caller, target in callers:
                behind = closed[caller]
                if self.only_ends[target]:
                    # The caller ends with the call: what follows it follows the call.
                    for frame in continuations.frames[behind].items():
                        continuations.add(frames, *frame)
                else:
                    continuations.add(frames, target, behind)
            continuations.add(closed, start, continuations.of(frames))
        return closed

    def _found_begun(self, states: tuple[int, ...]) -> list[_BegunCall]:
        """Return the calls that begin in a set of states, each rule after all rules that call it.

        The heap returns the first states of rules in the order of ``call_order``. Nothing calls
        states that are no first states of rules, so they come before all of them. ``callers`` and
        the heap grow together: ``_call`` enters a rule in both when it is first called.
        """
        ranks = self._ranks
        begun: list[_BegunCall] = []
        callers: dict[int, list[tuple[int, int]]] = {}
        starts = [(ranks[state], state) for state in states if state in ranks]
        heapq.heapify(starts)
        for state in states:
            if state != END and state not in ranks:
                self._call(state, callers, starts)
        done: set[int] = set()
        while starts:
            _, start = heapq.heappop(starts)
            if start not in done:
                done.add(start)
                # A first state that stands in ``states`` itself may have no callers here.
                if start in callers:
                    begun.append((start, callers[start]))
                self._call(start, callers, starts)
        return begun

    def _call(
        self, state: int, callers: dict[int, list[tuple[int, int]]], starts: list[tuple[int, int]]
    ) -> None:
        """Begin the calls of a state: record it among the callers of each rule.

        ``callers`` and ``starts``, the heap, are those of ``_found_begun``; both are added to.
        """
        network = self._network
        for rule, target in network.calls[state]:
            start = network.starts[rule]
            if start not in callers:
                callers[start] = []
                heapq.heappush(starts, (self._ranks[start], start))
            callers[start].append((state, target))
