"""Shortest completions in a grammar: the fewest bytes that complete the text from a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from guided.grammar.machine.completion_kernel import write_shortest_text
from guided.grammar.machine.continuations import END, Continuations
from guided.grammar.machine.holes import Holes
from guided.grammar.network.network import Network
from guided.runtime.work_budget import spend, without_gil

__all__ = ["Completions"]

_BYTES_A_UNIT: Final = 8
"""Bytes of a completion per unit of work; few, so that the work limit bounds its length."""
_BYTES_A_MICROSECOND: Final = 200
"""Bytes that are written in about a microsecond."""


class Completions:
    """Finds shortest completions, from the shortest moves of a network.

    A *parse* is a state of the network, or one inside one of its ``holes``, and the continuation of
    its rule.
    """

    def __init__(
        self, network: Network, continuations: Continuations, holes: Holes | None = None
    ) -> None:
        self._network = network
        self._continuations = continuations
        self._holes = holes
        starts = np.array(network.starts, dtype=np.int32)
        self._kernel_network = network.shortest_moves, starts, network.first_hole

    def bytes_left(self, parses: Sequence[tuple[int, int]]) -> int:
        """Return an upper bound on the length of ``shortest_completion``."""
        return min([self._bytes_left_from(*parse) for parse in parses])

    def shortest_completion(self, parses: Sequence[tuple[int, int]]) -> bytes:
        """Return the shortest completion of any of the parses, at least one.

        Ties are broken by the numbers of the parses, so that the result is deterministic.
        """
        return self._complete_parse(
            *min(parses, key=lambda parse: (self._bytes_left_from(*parse), parse))
        )

    def _bytes_left_from(self, state: int, continuation: int) -> int:
        """Return an upper bound on the length of the completion of a parse."""
        if self._holes is None or state < len(self._network):
            return self._continuations.bytes_left(state, continuation)
        return self._holes.bytes_left(state) + self._continuations.distance[continuation]

    def _complete_parse(self, state: int, continuation: int) -> bytes:
        """Return the completion of a parse: the shortest one, except that holes may make it longer.

        The continuation must not be truncated.
        """
        pieces: list[bytes] = []
        if state >= len(self._network):
            pieces.append(self._hole_text(state))
            state, continuation = self._continuations.nearest_frame(continuation)
        while state != END:
            pieces += self._complete_rule(state)
            state, continuation = self._continuations.nearest_frame(continuation)
        return b"".join(pieces)

    def _complete_rule(self, state: int) -> list[bytes]:
        """Return the bytes from a state to the end of its rule, in pieces."""
        network = self._network
        left = network.distance[state]
        # Before ``text`` is allocated, as the distance may be up to MAX_DISTANCE.
        spend(1 + left // _BYTES_A_UNIT)
        # Room enough: the distance includes the shortest texts of holes, which are not written.
        text, size = np.empty(left, np.uint8), 0
        returns, depth = np.empty(len(network.starts), np.int32), 0
        pieces: list[bytes] = []
        while True:
            start = size
            with without_gil(left // _BYTES_A_MICROSECOND):
                state, size, depth = write_shortest_text(
                    self._kernel_network, state, text, size, returns, depth
                )
            pieces.append(text[start:size].tobytes())
            if state < network.first_hole:
                return pieces
            pieces.append(self._hole_text(state))
            # The state of a hole has no moves: it returns like the end of a rule.
            if not depth:
                return pieces
            depth -= 1
            state = int(returns[depth])

    def _hole_text(self, state: int) -> bytes:
        """Return a short text that completes a hole, from the number of a state in it."""
        assert self._holes is not None, f"nobody fills the hole at {state}"
        return self._holes.shortest_completion(state)
