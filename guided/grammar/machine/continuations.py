"""Continuations: what may follow the text of a rule, as shared, hash-consed stacks of calls.

A continuation is a set of frames: for each state that the rule returns to, the continuation of the
caller. All callers of a rule at one position of a text share one continuation, as in a
graph-structured stack (Tomita, 1986); but positions are not stored, so equal continuations have the
same number wherever they occur::

    sum: NUMBER | "(" sum ")"          state 3 is after the call, before the ")"

    text     continuation of the innermost rule
             0 = {END: 0}              ROOT
    (        2 = {3: 0}
    ((       3 = {3: 2}                both brackets are open

A *stack* is the continuations in the slots of a row; stacks are numbered too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from guided.errors import LimitExceededError
from guided.grammar.network.network import Network
from guided.machine.stack_table import StackTable
from guided.runtime.work_budget import spend

__all__ = ["END", "ROOT", "TRUNCATED", "UNKNOWN", "Continuations", "GrammarStacks"]

END: Final = -1
"""In place of a state: the text may end."""
UNKNOWN: Final = -2
"""In place of a state: the continuation was truncated."""
ROOT: Final = 0
TRUNCATED: Final = 1
"""The continuations of the whole text, and of a truncated one."""
_PAIR_WORK: Final = 2
"""Units of work to join two continuations, besides one per frame (``spend``)."""
Frames: TypeAlias = Mapping[int, int]
"""The continuation of the caller, by the state that is returned to."""


class Continuations:
    """Interns continuations: equal ones have the same number. Numbers are never reused."""

    def __init__(self, network: Network, max_count: int) -> None:
        self.max_count = max_count
        """The greatest number of continuations; one more raises LimitExceededError."""
        self._rule_distance = network.distance
        """``Network.distance``."""
        self.frames: list[Frames] = [{END: ROOT}, {UNKNOWN: TRUNCATED}]
        """By number; not to be changed. Except in ROOT and TRUNCATED, frames refer only to lower
        numbers, so there are no cycles."""
        self.distance: list[int] = [0, 0]
        """By number, the least number of bytes to the end of the text, or to where it is cut
        off."""
        self._numbers = {frozenset(frames.items()): at for at, frames in enumerate(self.frames)}
        """The inverse of ``frames``."""
        self._truncation_cache: dict[tuple[int, int], int] = {}
        """Results of ``truncate``, by continuation and depth."""
        self._union_cache: dict[tuple[int, int], int] = {}
        """Results of ``union``, by ``_ordered_pair``."""

    def __len__(self) -> int:
        return len(self.frames)

    def intern(self, frames: Frames) -> int:
        """Return the number of the continuation with these frames, of which there is at least one.

        Raises LimitExceededError if there are too many continuations.
        """
        key = frozenset(frames.items())
        number = self._numbers.get(key)
        if number is None:
            if len(self.frames) >= self.max_count:
                raise LimitExceededError(
                    f"the recogniser needs more than {self.max_count} continuations",
                    limit=self.max_count,
                    field="constraint",
                    hint="nest less deeply, or make the grammar less ambiguous",
                )
            number = self._numbers[key] = len(self.frames)
            self.frames.append(dict(frames))
            self.distance.append(min(self.bytes_left(*frame) for frame in frames.items()))
        return number

    def bytes_left(self, state: int, continuation: int) -> int:
        """Return the least number of bytes from a state to the end of the text.

        0 for END and UNKNOWN.
        """
        return 0 if state < 0 else self._rule_distance[state] + self.distance[continuation]

    def nearest_frame(self, continuation: int) -> tuple[int, int]:
        """Return state and continuation of the frame with the fewest bytes to the end of the text.

        Ties are broken by the lowest numbers, so that completions are deterministic. The state is
        END for ROOT, and UNKNOWN for TRUNCATED.
        """
        frames = self.frames[continuation].items()
        return min(frames, key=lambda frame: (self.bytes_left(*frame), frame))

    def add(self, frames: dict[int, int], state: int, continuation: int) -> None:
        """Add a state with its continuation to ``frames``; of one that is there, take the union.

        ``frames`` is a dict of the caller's, changed in place: frames still to be interned, or the
        states that a text may be in. Raises LimitExceededError as ``union`` does.
        """
        known = frames.get(state)
        if known is None:
            frames[state] = continuation
        elif known != continuation:
            frames[state] = self.union(known, continuation)

    def return_from(self, ended: Iterable[int]) -> dict[int, int]:
        """Return the states that rules with these continuations return to, with continuations.

        A new dict. It has END if the text may end, and UNKNOWN if a continuation was truncated.
        """
        reached: dict[int, int] = {}
        for continuation in ended:
            for state, caller in self.frames[continuation].items():
                self.add(reached, state, caller)
        return reached

    def union(self, left: int, right: int) -> int:
        """Return the continuation that allows what either of two allows.

        It has the frames of both; where both return to a state, the union of its continuations.
        Raises LimitExceededError if there are too many continuations.
        """
        if left == right:
            return left
        key = _ordered_pair(left, right)
        joined = self._union_cache.get(key)
        if joined is None:
            # Not recursive, as continuations may be as deep as the text is long: a pair is joined
            # when all pairs inside it are.
            worklist = [key]
            while worklist:
                pair = worklist[-1]
                missing = [
                    each
                    for each in self._pairs_to_join_first(*pair)
                    if each not in self._union_cache
                ]
                if missing:
                    worklist += missing
                    continue
                worklist.pop()
                if pair not in self._union_cache:
                    spend(_PAIR_WORK + sum(len(self.frames[each]) for each in pair))
                    self._union_cache[pair] = self._join(*pair)
            joined = self._union_cache[key]
        return joined

    def _pairs_to_join_first(self, left: int, right: int) -> list[tuple[int, int]]:
        """Return the pairs of continuations that have to be joined before these two are."""
        frames = self.frames[left]
        return [
            _ordered_pair(frames[state], continuation)
            for state, continuation in self.frames[right].items()
            if frames.get(state, continuation) != continuation
        ]

    def _join(self, left: int, right: int) -> int:
        """Compute the union of two continuations; all ``_pairs_to_join_first`` must be joined.

        Then calls of ``union`` by ``add`` find their results in the cache.
        """
        frames = dict(self.frames[left])
        for state, continuation in self.frames[right].items():
            self.add(frames, state, continuation)
        return self.intern(frames)

    def truncate(self, continuation: int, depth: int) -> int:
        """Return the continuation with only the innermost ``depth`` callers; the rest is TRUNCATED.

        ROOT stays where it is nearer. With depth 0 the result is TRUNCATED. Recursive, but
        ``depth`` is small (``grammar_machine`` keeps two).
        """
        if not depth:
            return TRUNCATED
        if continuation <= TRUNCATED:
            return continuation
        truncated = self._truncation_cache.get((continuation, depth))
        if truncated is None:
            frames: dict[int, int] = {}
            for state, caller in self.frames[continuation].items():
                frames[state] = self.truncate(caller, depth - 1)
            truncated = self._truncation_cache[continuation, depth] = self.intern(frames)
        return truncated


def _ordered_pair(left: int, right: int) -> tuple[int, int]:
    return (left, right) if left < right else (right, left)


class GrammarStacks(StackTable[tuple[int, ...]]):
    """Interns stacks: the continuations in the slots of a row."""

    def __init__(self, max_count: int) -> None:
        super().__init__([])
        self.max_count = max_count
        """The greatest number of stacks; one more raises LimitExceededError."""
        self._numbers: dict[tuple[int, ...], int] = {}
        """The inverse of ``frames``."""

    def intern(self, continuations: tuple[int, ...]) -> int:
        """Return the number of the stack with these continuations, by slot.

        Raises LimitExceededError if there are too many stacks.
        """
        number = self._numbers.setdefault(continuations, len(self.frames))
        if number == len(self.frames):
            if number >= self.max_count:
                # A number without frames must not stay.
                del self._numbers[continuations]
                raise LimitExceededError(
                    f"the recogniser needs more than {self.max_count} stacks",
                    limit=self.max_count,
                    field="constraint",
                    hint="nest less deeply, or make the grammar less ambiguous",
                )
            self.append(continuations)
        return number
