"""How a tokenizer splits a text into pieces, and which ways remain while the text grows.

A tokenizer has stages, each of which splits the pieces of the one before it by a pattern: what
matches is a piece, and so is what stands between matches. Where a piece ends can depend on what
follows, so the beginning of a text may be split in several *ways*. Each way says where the pieces
after the first begin; the last of them is open and may extend beyond the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from guided.masks.split_automaton import DEAD, SplitAutomaton

__all__ = ["Cuts", "SplitUncertainError", "Splitting"]

Cuts: TypeAlias = tuple[int, ...]
"""Places in a text in increasing order, at which pieces begin; the first piece begins at 0."""


class SplitUncertainError(Exception):
    """The remaining ways are not known."""


class _Way:
    """Where the pieces of one stage begin, and what is known about the open one."""

    __slots__ = ("begin", "cuts", "is_between", "state")

    def __init__(self, cuts: Cuts, state: int, is_between: bool) -> None:
        self.cuts = cuts
        self.state = state
        """That of the match that may take the open piece; DEAD if none does."""
        self.is_between = is_between
        """Whether the open piece stands between matches."""
        self.begin = cuts[-1] if cuts else 0


class Splitting:
    """The stages of one tokenizer; without any, a text is one piece."""

    def __init__(self, stages: Sequence[SplitAutomaton]) -> None:
        self._stages = stages

    def __bool__(self) -> bool:
        return bool(self._stages)

    def cuts(self, text: str) -> Cuts:
        """Return where the pieces of a complete text begin."""
        return self._cuts(text, 0)

    def ways(self, text: str) -> list[Cuts]:
        """Return all ways in which the beginning of a longer text may be split, possibly too many.

        May raise SplitUncertainError.
        """
        return list(dict.fromkeys(self._ways(text, 0)))

    def may_reach(self, text: str, begin: int) -> int:
        """Return the state of the open piece that begins at a place, for ``reaches``."""
        return self._stages[-1].match(text, begin)[0] if self._stages else DEAD

    def reaches(self, state: int, rest: str) -> bool:
        """Return whether the open piece may extend over all of ``rest``, and possibly further."""
        # A piece without a match stands between matches, about which nothing is known here.
        return state == DEAD or self._stages[-1].lives_on(state, rest)

    def left_context(self, text: str) -> tuple[object, int]:
        """Return all that what follows can depend on, and where the part begins that determines it.

        The first is a value to compare: texts with equal ones leave the same ways to split what
        follows. May raise SplitUncertainError.
        """
        return self._left_context(text, 0)

    def _left_context(self, text: str, number: int) -> tuple[object, int]:
        """``left_context`` by the stages from ``number`` on.

        The value has, for each way of the first of these stages, its state, and the value of the
        later stages for its open piece. The first way has the longest open piece, so the part from
        there on determines all ways.

        Whatever a later piece can depend on has to be in the value: ``LeftContexts`` treats texts
        with equal values alike.
        """
        if number == len(self._stages):
            return (), len(text)
        ways = self._ways_of(text, number)
        known = [
            (way.state, way.is_between, self._left_context(text[way.begin :], number + 1)[0])
            for way in ways
        ]
        return tuple(known), ways[0].begin

    def _cuts(self, text: str, number: int) -> Cuts:
        """Return where the stages from ``number`` on cut a complete text."""
        if number == len(self._stages) or not text:
            return ()
        cuts = _closed_cuts(self._stages[number], text)
        return cuts if number + 1 == len(self._stages) else self._finer(text, cuts, number + 1)

    def _finer(self, text: str, cuts: Cuts, number: int) -> Cuts:
        """Return the cuts, with those of the stages from a number on inside the pieces.

        ``cuts`` are those of the stage before ``number``, and ascend; so does the result.
        """
        found: list[int] = []
        for begin, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
            if begin:
                found.append(begin)
            found += [begin + cut for cut in self._cuts(text[begin:end], number)]
        return tuple(found)

    def _ways(self, text: str, number: int) -> list[Cuts]:
        """Return the ways in which the stages from ``number`` on may cut a text that may continue.

        A way may occur more than once. May raise SplitUncertainError.
        """
        if number == len(self._stages):
            return [()]
        ways = self._ways_of(text, number)
        if number + 1 == len(self._stages):
            return [way.cuts for way in ways]
        found = []
        for way in ways:
            before = self._finer(text[: way.begin], way.cuts[:-1], number + 1)
            if way.begin:
                before += (way.begin,)
            rest = text[way.begin :]
            inner = self._ways(rest, number + 1)
            # The piece of this stage may end with the text, and is all that the next stage sees.
            inner.append((*self._cuts(rest, number + 1), len(rest)))
            found += [(*before, *(way.begin + cut for cut in cuts)) for cuts in inner]
        return found

    def _ways_of(self, text: str, number: int) -> list[_Way]:
        """Return the ways of one stage alone, the one with the longest open piece first.

        There is at least one. Raises SplitUncertainError if a match has begun that may still
        fail, and nothing shorter matched: then it is not known where the next piece begins.
        """
        stage = self._stages[number]
        ways: list[_Way] = []
        cuts: list[int] = []
        begin, is_between = 0, False
        while begin < len(text):
            state, last = stage.match(text, begin)
            # No match begins here, whatever follows: the character stands between matches.
            if last is None and state == DEAD:
                begin, is_between = _passed(cuts, begin, is_between)
                continue
            if begin:
                cuts.append(begin)
            # The match may continue beyond the text, which makes this piece the open one. Unless it
            # is sure to end in a match, it may also have ended at ``last``, which is looked at
            # next.
            if state != DEAD:
                ways.append(_Way(tuple(cuts), state, is_between=False))
                if stage.is_sure(state):
                    return ways
            if last is None:
                raise SplitUncertainError(text)
            begin, is_between = last, False
        ways.append(_Way(tuple(cuts), DEAD, is_between))
        return ways


def _closed_cuts(stage: SplitAutomaton, text: str) -> Cuts:
    """Return where one stage cuts a complete text: its matches, and what stands between them."""
    cuts: list[int] = []
    begin, is_between = 0, False
    while begin < len(text):
        state, last = stage.match(text, begin)
        if state != DEAD and stage.ends(state):
            last = len(text)
        if last is None:
            begin, is_between = _passed(cuts, begin, is_between)
            continue
        if begin:
            cuts.append(begin)
        begin, is_between = last, False
    return tuple(cuts)


def _passed(cuts: list[int], begin: int, is_between: bool) -> tuple[int, bool]:
    """Pass a character at which no match begins; returns the next place, and True for "between".

    It is in one piece with such characters before it, so only the first of them adds a cut.

    ``cuts`` is changed in place.
    """
    if begin and not is_between:
        cuts.append(begin)
    return begin + 1, True
