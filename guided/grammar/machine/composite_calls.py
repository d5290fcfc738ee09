"""Closures of configurations under calls and returns, for grammars with holes."""

from __future__ import annotations

from collections.abc import Mapping

from guided.grammar.machine.calls import Calls
from guided.grammar.machine.continuations import END, Continuations
from guided.grammar.machine.grammar_rows import GrammarRows
from guided.grammar.machine.holes import Holes, HoleState
from guided.grammar.network.network import Network
from guided.machine.recognizer import State
from guided.machine.table import END_ROW

__all__ = ["CompositeCalls"]


class CompositeCalls(Calls):
    """Adds calls and returns to configurations that may also contain states in holes.

    States in holes have numbers from ``network.first_hole`` on: first the start of each hole, which
    is a state of the network, then, after those of the network, the others (``Holes``).
    """

    def __init__(
        self, network: Network, continuations: Continuations, rows: GrammarRows, holes: Holes
    ) -> None:
        super().__init__(network, continuations, rows)
        self._rows = rows
        self._holes = holes

    def call_closure(self, configuration: dict[int, int]) -> dict[int, int]:
        """Return the closure of a configuration under calls, see ``Calls.call_closure``."""
        # States in holes call no rules; nor do the starts of holes, which the network knows.
        first = len(self._network)
        inside = {
            state: continuation for state, continuation in configuration.items() if state >= first
        }
        if not inside:
            return super().call_closure(configuration)
        rest = {
            state: continuation for state, continuation in configuration.items() if state < first
        }
        return super().call_closure(rest) | inside

    def add_hole_state(
        self, reached: dict[int, int], hole: int, state: State, continuation: int
    ) -> None:
        """Add a state in a hole to the configuration ``reached`` (continuation by state), in place.

        ``hole`` is the number of the hole, ``continuation`` that of what follows its text. If
        ``state`` is in END_ROW, the row after a whole text of the hole, which reads nothing, the
        states that the continuation returns to are added instead. The result is not closed under
        calls.
        """
        if state.row == END_ROW:
            for returned, outer in self._continuations.return_from([continuation]).items():
                self._continuations.add(reached, returned, outer)
        else:
            self._continuations.add(
                reached, self._holes.intern(HoleState(hole, state)), continuation
            )

    def must_keep(self, state: int) -> bool:
        """Return whether rows must contain a state: it has moves, is in a hole, or may end."""
        return state >= self._network.first_hole or state == END or self.is_kept[state]

    def single_hole_state(self, closure: Mapping[int, int]) -> int | None:
        """Return the state that is in a hole, if it is the only one to keep, else ``None``.

        ``closure`` has the continuation of each state, those that are called included, and at least
        one to keep (``must_keep``). ``None`` also for a fork (see ``Holes.leads_to_fork``), which
        is handled as several parses, as the text of its hole may end or go on.
        """
        kept = [state for state in closure if self.must_keep(state)]
        # END is below all states of holes too.
        if len(kept) > 1 or kept[0] < self._network.first_hole:
            return None
        hole_state = self._holes.hole_state(kept[0])
        return None if self._holes.leads_to_fork(hole_state, self._rows) else kept[0]

    def full_closure(self, configuration: dict[int, int]) -> dict[int, int]:
        """Return the closure of a configuration under calls, and under returns if it has END."""
        closure = self.call_closure(configuration)
        if END not in closure:
            return closure
        # The row of states that only end would be left at once (``_settle`` of the machine), and
        # with it the fact that the text may end here. So they are replaced by what they return to.
        returned, first = self.return_closure(closure), self._network.first_hole
        ending = [at for at in returned if 0 <= at < first and self.only_ends[at]]
        return {at: continuation for at, continuation in returned.items() if at not in ending}

    def may_end(self, state: int) -> bool:
        """Return whether the rule, or the text of the hole, may end in a state."""
        if state < self._network.first_hole:
            return state != END and self.accepting[state]
        return self._holes.may_end(state)

    def return_closure(self, closure: dict[int, int]) -> dict[int, int]:
        """Return the closure of a configuration under returns (Earley completion) and calls.

        ``closure`` has its calls already, and is not changed; it is returned itself if nothing
        ends in it.
        """
        # Repeated until nothing new ends. ``done`` has pairs with the continuation: a state whose
        # continuation was joined with another has to return again.
        done: set[tuple[int, int]] = set()
        while True:
            ended = {item for item in closure.items() if self.may_end(item[0])} - done
            if not ended:
                return closure
            done |= ended
            closure = dict(closure)
            for state, continuation in self._continuations.return_from(
                [continuation for _, continuation in ended]
            ).items():
                self._continuations.add(closure, state, continuation)
            closure = self.call_closure(closure)
