"""Shortest completions of texts of a grammar: the fewest bytes that end the text from a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from guided.grammar.machine.continuations import END, Continuations
from guided.grammar.machine.way_kernel import follow_way
from guided.grammar.network.network import Network
from guided.runtime.fuel import spend, without_gil

__all__ = ["Completions"]

_BYTES_A_UNIT: Final = 8
"""Bytes of a completion per unit of work: few, as the work bounds its length."""
_BYTES_A_MICROSECOND: Final = 200
"""How many bytes are really found in that time."""


class Completions:
    """Finds shortest completions in a network, whose states know a shortest way to a rule's end.

    A *parse* is a state of the network and the continuation of its rule. ``CompositeMachine`` has
    a subclass that also knows the states inside holes.
    """

    def __init__(self, network: Network, continuations: Continuations) -> None:
        self._network = network
        self._continuations = continuations
        starts = np.array(network.starts, dtype=np.int32)
        self._ways = network.ways, starts, network.first_hole

    def left(self, parses: Sequence[tuple[int, int]]) -> int:
        """Return an upper bound on the bytes that end the text by the nearest of some parses."""
        return min([self._left(*parse) for parse in parses])

    def shortest(self, parses: Sequence[tuple[int, int]]) -> bytes:
        """Return the bytes that end the text by the nearest of one or several parses.

        Of several that are equally near the one with the lowest numbers, so that the result is
        always the same.
        """
        return self._completion(*min(parses, key=lambda parse: (self._left(*parse), parse)))

    def _left(self, state: int, continuation: int) -> int:
        """Return an upper bound on the bytes that end the text from one parse."""
        return self._continuations.left_behind(state, continuation)

    def _completion(self, state: int, continuation: int) -> bytes:
        """Return the fewest bytes from a state to the end of the text; through holes perhaps more.

        The continuation says where the way leads from the end of the rule that it began in. It must
        be whole: no way leads out of one that was cut off.
        """
        pieces: list[bytes] = []
        while state != END:
            pieces += self._to_end_of_rule(state)
            state, continuation = self._continuations.best(continuation)
        return b"".join(pieces)

    def _to_end_of_rule(self, state: int) -> list[bytes]:
        """Return the bytes from a state to the end of its rule, including those of rules called."""
        network = self._network
        left = network.left[state]
        spend(1 + left // _BYTES_A_UNIT)
        # No more than that is written, as it includes the shortest texts of holes.
        text, size = np.empty(left, np.uint8), 0
        returns, depth = np.empty(len(network.starts), np.int32), 0
        pieces: list[bytes] = []
        while True:
            begun = size
            with without_gil(left // _BYTES_A_MICROSECOND):
                state, size, depth = follow_way(self._ways, state, text, size, returns, depth)
            pieces.append(text[begun:size].tobytes())
            if state < network.first_hole:
                return pieces
            pieces.append(self._hole_text(state))
            # No move leads on from the state of a hole: it is left like a rule that ends.
            if not depth:
                return pieces
            depth -= 1
            state = int(returns[depth])

    def _hole_text(self, state: int) -> bytes:
        """Return a short text that fills a hole; ``state`` is that of the hole in the network."""
        raise AssertionError(f"nobody fills the hole at {state}")
