"""What may follow the text of a rule: stacks of calls, shared and hash-consed.

A continuation is a set of frames, one for each state that a call returns to, and each frame has
the continuation of its caller. All callers of a rule at one position of a text share one
continuation, as in a graph-structured stack (Tomita, 1986); but positions are not kept, so what is
left of a text has the same number wherever it occurs::

    sum: NUMBER | "(" sum ")"          state 3 is after the call, before the ")"

    text     continuation of the innermost rule
             0 = {END: 0}              ROOT
    (        2 = {3: 0}
    ((       3 = {3: 2}                both brackets are still to be closed

A *stack* is the continuations that the slots of a row stand for, also numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.grammar.network.network import Network
from guided.machine.facts import TAKEN, TEXTS
from guided.runtime.fuel import spend

__all__ = ["CUT", "END", "ROOT", "UNKNOWN", "Continuations", "GrammarStacks"]

END: Final = -1
"""In place of a state: the text may end."""
UNKNOWN: Final = -2
"""In place of a state: what follows was cut off."""
ROOT: Final = 0
CUT: Final = 1
"""The continuations of the whole text, and of what was cut off."""
_PAIR_WORK: Final = 2
"""Units of work to join two continuations, besides one for each frame (``spend``)."""
Frames: TypeAlias = Mapping[int, int]
"""The continuation at each state that is returned to."""


class Continuations:
    """Numbers continuations; equal ones have equal numbers, which are never reused."""

    def __init__(self, network: Network, most: int) -> None:
        self.most = most
        """The greatest number of continuations; one more raises LimitExceededError."""
        self._left = network.left
        """By state of the network, the least number of bytes to the end of its rule."""
        self.frames: list[Frames] = [{END: ROOT}, {UNKNOWN: CUT}]
        """By number; not to be changed. Except for these two, frames lead only to continuations
        with lower numbers, so there are no circles."""
        self.left: list[int] = [0, 0]
        """By number, the least number of bytes to the end of the text."""
        self._numbers = {frozenset(frames.items()): at for at, frames in enumerate(self.frames)}
        """The inverse of ``frames``."""
        self._cut: dict[tuple[int, int], int] = {}
        """By continuation and depth, see ``cut``."""
        self._unions: dict[tuple[int, int], int] = {}
        """By the two that are joined, the smaller number first, see ``_pair``."""

    def __len__(self) -> int:
        return len(self.frames)

    def of(self, frames: Frames) -> int:
        """Return the continuation with these frames, at least one; LimitExceededError when full."""
        key = frozenset(frames.items())
        number = self._numbers.get(key)
        if number is None:
            if len(self.frames) >= self.most:
                raise LimitExceededError(
                    f"the recogniser needs more than {self.most} continuations",
                    limit=self.most,
                    field="constraint",
                    hint="nest less deeply, or make the grammar less ambiguous",
                )
            number = self._numbers[key] = len(self.frames)
            self.frames.append(dict(frames))
            self.left.append(min(self.left_behind(*frame) for frame in frames.items()))
        return number

    def left_behind(self, state: int, continuation: int) -> int:
        """Return the least number of bytes from a state to the end; 0 from END and UNKNOWN."""
        return 0 if state < 0 else self._left[state] + self.left[continuation]

    def best(self, continuation: int) -> tuple[int, int]:
        """Return the state and continuation of the frame that is nearest to the end of the text.

        Of several the one with the lowest numbers, so that completions are always the same. The
        state is END for ROOT, and UNKNOWN for CUT.
        """
        frames = self.frames[continuation].items()
        return min(frames, key=lambda frame: (self.left_behind(*frame), frame))

    def add(self, frames: dict[int, int], state: int, continuation: int) -> None:
        """Add to ``frames`` that ``state`` is returned to, with a continuation.

        If the state is already there, its continuation becomes the union of both, so this raises
        LimitExceededError when full.
        """
        known = frames.get(state)
        if known is None:
            frames[state] = continuation
        elif known != continuation:
            frames[state] = self.union(known, continuation)

    def returned(self, ended: Iterable[int]) -> dict[int, int]:
        """Return where rules with these continuations return to: a new dict by state.

        END is among the states where the text may end, UNKNOWN if one of them was cut off.
        """
        reached: dict[int, int] = {}
        for continuation in ended:
            for state, after in self.frames[continuation].items():
                self.add(reached, state, after)
        return reached

    def union(self, left: int, right: int) -> int:
        """Return the continuation after which a text may continue as after either of two.

        A state that both return to is returned to with the union of what follows it in each. Raises
        LimitExceededError when full.
        """
        if left == right:
            return left
        key = _pair(left, right)
        joined = self._unions.get(key)
        if joined is None:
            # The frames in which two continuations differ may be as many as the text is long, so
            # this is no recursion: a pair is joined when all pairs after it are.
            waiting = [key]
            while waiting:
                pair = waiting[-1]
                apart = [each for each in self._pairs_after(*pair) if each not in self._unions]
                if apart:
                    waiting += apart
                    continue
                waiting.pop()
                if pair not in self._unions:
                    spend(_PAIR_WORK + sum(len(self.frames[each]) for each in pair))
                    self._unions[pair] = self._joined(*pair)
            joined = self._unions[key]
        return joined

    def _pairs_after(self, left: int, right: int) -> list[tuple[int, int]]:
        """Return the continuations that have to be joined before these two are."""
        frames = self.frames[left]
        return [
            _pair(frames[state], after)
            for state, after in self.frames[right].items()
            if frames.get(state, after) != after
        ]

    def _joined(self, left: int, right: int) -> int:
        """Return the union of two continuations, once all pairs of ``_pairs_after`` are joined.

        ``add`` calls ``union`` again, which then finds all that it needs: no deep recursion.
        """
        frames = dict(self.frames[left])
        for state, continuation in self.frames[right].items():
            self.add(frames, state, continuation)
        return self.of(frames)

    def cut(self, continuation: int, depth: int) -> int:
        """Return the continuation down to ``depth`` callers; beyond, it is CUT, of unknown frames.

        An end of the text (ROOT) that is nearer stays known, and with no callers everything is CUT.
        Recursive, but ``depth`` is small (``state_masks`` uses at most two callers).
        """
        if not depth:
            return CUT
        if continuation <= CUT:
            return continuation
        cut = self._cut.get((continuation, depth))
        if cut is None:
            frames: dict[int, int] = {}
            for state, after in self.frames[continuation].items():
                frames[state] = self.cut(after, depth - 1)
            cut = self._cut[continuation, depth] = self.of(frames)
        return cut


def _pair(left: int, right: int) -> tuple[int, int]:
    return (left, right) if left < right else (right, left)


class GrammarStacks:
    """Numbers stacks: the continuations that the slots of a row stand for.

    It is the ``StackTable`` of a grammar, which defines what it must have.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        """The greatest number of stacks; one more raises LimitExceededError."""
        self.frames: list[tuple[int, ...]] = []
        """By number; not to be changed, and numbers are never reused."""
        # No stack of a grammar alone has names that must not come again: all facts are 0.
        self.facts: NDArray[np.int32] = np.zeros((256, 3), dtype=np.int32)
        """int32 ``[room, 3]``, with room for more stacks than exist; see ``guided.machine.facts``.
        A new array each time the room is used up."""
        self.with_keys: list[int] = []
        """Always empty, as no stack has keys."""
        self._numbers: dict[tuple[int, ...], int] = {}
        """The inverse of ``frames``."""

    def __len__(self) -> int:
        return len(self.frames)

    def of(self, continuations: tuple[int, ...]) -> int:
        """Return the stack of these continuations, by slot; LimitExceededError when full."""
        number = self._numbers.setdefault(continuations, len(self.frames))
        if number == len(self.frames):
            if number >= self.most:
                # ``setdefault`` has entered it; a number without frames must not stay.
                del self._numbers[continuations]
                raise LimitExceededError(
                    f"the recogniser needs more than {self.most} stacks",
                    limit=self.most,
                    field="constraint",
                    hint="nest less deeply, or make the grammar less ambiguous",
                )
            self.frames.append(continuations)
            if number >= len(self.facts):
                self.facts = np.append(self.facts, np.zeros_like(self.facts), axis=0)
        return number

    def depth(self, number: int) -> int:
        """Return how many of the values being written have to be remembered."""
        return self.facts.item(number, TEXTS)

    def taken(self, number: int) -> int:
        """Return the greatest number of names that may be taken."""
        return self.facts.item(number, TAKEN)

    def free_keys(self, number: int) -> set[bytes]:  # noqa: ARG002 - no stack has any
        """Return names that must not come again: a grammar alone has none."""
        return set()
