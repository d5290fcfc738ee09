"""Enters the rules that a configuration calls before another byte is read (Earley prediction)."""

from __future__ import annotations

import heapq
from typing import TypeAlias

from guided.grammar.machine.continuations import END, Continuations
from guided.grammar.machine.grammar_rows import GrammarRows
from guided.grammar.network.first_and_follow import call_order
from guided.grammar.network.network import Network
from guided.regular.dfa import DEAD
from guided.runtime.work_budget import spend

__all__ = ["Calls"]

_OpenCall: TypeAlias = tuple[int, list[tuple[int, int]]]
"""The first state of a rule, and its callers: states that call it, with the state returned to."""


class Calls:
    """Adds calls to configurations, and has facts about the states of the network.

    Caches stay valid, as the network never changes.
    """

    def __init__(self, network: Network, continuations: Continuations, rows: GrammarRows) -> None:
        self._network = network
        self._continuations = continuations
        self._ranks = {network.starts[rule]: rank for rank, rule in enumerate(call_order(network))}
        """The position of a rule in ``call_order``, by its first state."""
        # Lists, as looking up a single element in a numpy array is slow.
        reads = (network.moves != DEAD).any(axis=1)
        self.accepting: list[bool] = network.accepting.tolist()
        """By state, whether its rule may end there."""
        # Other states only have calls, and the called rules are in the row; or they stand for
        # holes, see ``CompositeCalls.must_keep``.
        self.is_kept: list[bool] = (network.accepting | reads).tolist()
        """By state, whether rows contain it."""
        self.only_ends: list[bool] = (network.accepting & ~reads & ~rows.has_calls).tolist()
        """By state, whether its rule ends there and has neither moves nor calls."""
        self._open_calls_cache: dict[tuple[int, ...], list[_OpenCall]] = {}
        """Results of ``_find_open_calls``, by the states."""

    def call_closure(self, configuration: dict[int, int]) -> dict[int, int]:
        """Return the closure of a configuration under calls: with the start of each called rule.

        A new dict. The configuration must not contain UNKNOWN. All callers of a rule share one
        continuation, which has a frame for each state that a call returns to.
        """
        spend(5 + len(configuration))
        key = tuple(configuration)
        open_calls = self._open_calls_cache.get(key)
        if open_calls is None:
            open_calls = self._open_calls_cache[key] = self._find_open_calls(key)
        # Callers come before their callees in ``open_calls``, so they are in ``closure`` already.
        continuations, closure = self._continuations, dict(configuration)
        for start, callers in open_calls:
            frames: dict[int, int] = {}
            for caller, target in callers:
                continuation = closure[caller]
                if self.only_ends[target]:
                    # A tail call: it returns to where the caller returns to.
                    for frame in continuations.frames[continuation].items():
                        continuations.add(frames, *frame)
                else:
                    continuations.add(frames, target, continuation)
            continuations.add(closure, start, continuations.intern(frames))
        return closure

    def _find_open_calls(self, states: tuple[int, ...]) -> list[_OpenCall]:
        """Return the rules called from a set of states, each after all rules that call it.

        The heap ``starts`` yields first states of rules in ``call_order``. States that do not begin
        a rule cannot be called, so they are done first. ``_record_callers`` adds a rule to
        ``callers`` and to the heap when it is first called.
        """
        ranks = self._ranks
        open_calls: list[_OpenCall] = []
        callers: dict[int, list[tuple[int, int]]] = {}
        starts = [(ranks[state], state) for state in states if state in ranks]
        heapq.heapify(starts)
        for state in states:
            if state != END and state not in ranks:
                self._record_callers(state, callers, starts)
        done: set[int] = set()
        while starts:
            _, start = heapq.heappop(starts)
            if start not in done:
                done.add(start)
                # One of the given ``states`` may have no callers.
                if start in callers:
                    open_calls.append((start, callers[start]))
                self._record_callers(start, callers, starts)
        return open_calls

    def _record_callers(
        self, state: int, callers: dict[int, list[tuple[int, int]]], starts: list[tuple[int, int]]
    ) -> None:
        """Record a state as a caller of the rules that it calls, for ``_find_open_calls``.

        Adds to ``callers`` and to the heap ``starts``.
        """
        network = self._network
        for rule, target in network.calls[state]:
            start = network.starts[rule]
            if start not in callers:
                callers[start] = []
                heapq.heappush(starts, (self._ranks[start], start))
            callers[start].append((state, target))
