"""Calls and returns in configurations of grammars with holes."""

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
    """Adds calls and returns to configurations that may also have states in holes.

    ``Holes`` numbers the states in holes after those of the network.
    """

    def __init__(
        self, network: Network, continuations: Continuations, rows: GrammarRows, holes: Holes
    ) -> None:
        super().__init__(network, continuations, rows)
        self._rows = rows
        self._holes = holes

    def with_calls(self, configuration: dict[int, int]) -> dict[int, int]:
        """Return a configuration with all calls that begin in it, as ``Calls.with_calls`` does."""
        # States in holes, which are numbered after the network's, begin no calls.
        first = len(self._network)
        begun = {state: after for state, after in configuration.items() if state >= first}
        if not begun:
            return super().with_calls(configuration)
        rest = {state: after for state, after in configuration.items() if state < first}
        return super().with_calls(rest) | begun

    def reach(self, reached: dict[int, int], hole: int, state: State, after: int) -> None:
        """Add a state in a hole to a configuration, or what follows the hole.

        Adds only what follows where ``state`` is in END_ROW: no byte is left to be read in the
        hole. ``after`` is the continuation of the hole; ``reached`` is added to.
        """
        if state.row == END_ROW:
            for frame in self._continuations.returned([after]).items():
                self._continuations.add(reached, *frame)
        else:
            self._continuations.add(reached, self._holes.number(HoleState(hole, state)), after)

    def is_parse(self, state: int) -> bool:
        """Return whether a state has to be kept: bytes lead on from it, or something ends there."""
        return state >= self._network.first_hole or state == END or self.is_kept[state]

    def lone(self, closed: Mapping[int, int]) -> int | None:
        """Return the only state of a configuration if it is in a hole and no fork, else ``None``.

        ``closed`` has at least one parse. A fork (see ``Holes.is_fork``) is handled as several
        parses, since the row of its hole does not determine what follows the hole.
        """
        kept = [state for state in closed if self.is_parse(state)]
        if len(kept) > 1 or kept[0] < self._network.first_hole:
            return None
        return None if self._holes.is_fork(self._holes.at(kept[0]), self._rows) else kept[0]

    def closed(self, configuration: dict[int, int]) -> dict[int, int]:
        """Return a configuration with all its calls, and its returns if the text may end there."""
        closed = self.with_calls(configuration)
        if END not in closed:
            return closed
        # States that only end read no byte. Their row would be left at once, see the machine's
        # ``_settled``, and with the row it would be forgotten that the text may end here. So what
        # they return to is added now, and they themselves are dropped.
        returned, first = self.with_returns(closed), self._network.first_hole
        ending = [at for at in returned if 0 <= at < first and self.only_ends[at]]
        return {at: after for at, after in returned.items() if at not in ending}

    def may_end(self, state: int) -> bool:
        """Return whether the rule, or the text of the hole, may end in a state."""
        if state < self._network.first_hole:
            return state != END and self.accepting[state]
        return self._holes.may_end(state)

    def with_returns(self, closed: dict[int, int]) -> dict[int, int]:
        """Return a configuration with all that may follow what ends in it, and the calls of that.

        ``closed`` has its calls, and is not changed; it is returned if nothing ends. Repeated
        until nothing new ends: a rule that ends may return to a state that ends too. ``done`` has
        pairs of state and continuation, as the continuation of a state may be joined with others
        later, and what it returns to has to be added again then. Calls that are already there may
        be added again: what follows them is joined.
        """
        done: set[tuple[int, int]] = set()
        while True:
            ended = {item for item in closed.items() if self.may_end(item[0])} - done
            if not ended:
                return closed
            done |= ended
            closed = dict(closed)
            for state, after in self._continuations.returned([after for _, after in ended]).items():
                self._continuations.add(closed, state, after)
            closed = self.with_calls(closed)
