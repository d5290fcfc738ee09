"""Shortest completions of texts of a grammar: the fewest bytes that end the text from a state."""

from __future__ import annotations

from collections.abc import Sequence

from guided.grammar.machine.continuations import END, Continuations
from guided.grammar.network.network import Network
from guided.runtime.fuel import spend

__all__ = ["Completions"]


class Completions:
    """Finds them for one network, each of whose states knows a shortest way to its rule's end.

    A *parse* is a state of the network and the continuation of its rule. ``CompositeMachine`` has
    a subclass that knows the states inside of holes, too.
    """

    def __init__(self, network: Network, continuations: Continuations) -> None:
        self._network = network
        self._continuations = continuations

    def left(self, parses: Sequence[tuple[int, int]]) -> int:
        """How many bytes end the text at most by the nearest of several parses, one at least."""
        return min([self._left(*parse) for parse in parses])

    def shortest(self, parses: Sequence[tuple[int, int]]) -> bytes:
        """The bytes that end the text by the nearest of several parses, one at least.

        Of several that are as near the one with the least numbers, so that it is always the same.
        """
        return self._completion(*min(parses, key=lambda parse: (self._left(*parse), parse)))

    def _left(self, state: int, continuation: int) -> int:
        """How many bytes end the text at most from one parse."""
        return self._continuations.left_behind(state, continuation)

    def _completion(self, state: int, continuation: int) -> bytes:
        """The fewest bytes from a state to the end of the text; through holes perhaps a few more.

        ``returns`` is a stack of our own for the calls that the way itself makes: what follows them
        is known. Only when it is empty does the way leave the rule that it began in, and the
        continuation says where to. It must be whole: no way leads out of one that was cut off.
        """
        network, continuations = self._network, self._continuations
        text = bytearray()
        returns: list[int] = []
        while state != END:
            way = network.way(state)
            # No move leads on from the state of a hole, so its way is None: a branch below leaves
            # it as it leaves a rule that ends.
            if state >= network.first_hole:
                text += self._hole_text(state)
            if way is None and returns:
                state = returns.pop()
            elif way is None:
                state, continuation = continuations.best(continuation)
            elif way.rule is not None:
                returns.append(way.target)
                state = network.starts[way.rule]
            else:
                assert way.byte is not None, state
                text.append(way.byte)
                state = way.target
            spend(1)
        return bytes(text)

    def _hole_text(self, state: int) -> bytes:
        """A text that fills a hole, short; ``state`` is that of the hole in the network."""
        raise AssertionError(f"nobody fills the hole at {state}")
