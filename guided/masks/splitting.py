"""How a tokenizer splits a text into pieces, and which splits remain possible while it grows.

A tokenizer has stages, each of which splits the pieces of the one before it by a pattern: what
matches is a piece, and so is what stands between matches. Where a piece ends can depend on what
follows, so there may be several possible splits of the beginning of a text. Each says where the
pieces after the first begin; the last of them is *open* and may extend beyond the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from guided.masks.split_automaton import DEAD, SplitAutomaton

__all__ = ["Cuts", "SplitUncertainError", "Splitting"]

Cuts: TypeAlias = tuple[int, ...]
"""Places in a text in increasing order, at which pieces begin; the first piece begins at 0."""


class SplitUncertainError(Exception):
    """The possible splits are not known."""


class _PartialSplit:
    """One possible split by one stage: where its pieces begin, and the state of the open one."""

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

    def possible_cuts(self, text: str) -> list[Cuts]:
        """Return all possible cuts of the beginning of a longer text, perhaps too many.

        May raise SplitUncertainError.
        """
        return list(dict.fromkeys(self._possible_cuts(text, 0)))

    def open_piece_state(self, text: str, begin: int) -> int:
        """Return the state of the open piece that begins at a place, for ``may_extend_over``."""
        return self._stages[-1].match(text, begin)[0] if self._stages else DEAD

    def may_extend_over(self, state: int, rest: str) -> bool:
        """Return whether the open piece may extend over all of ``rest``, and possibly further.

        Only the last stage is asked, so True may be wrong; False never is for an open piece that
        has a character.
        """
        # A piece without a match stands between matches, about which nothing is known here.
        return state == DEAD or self._stages[-1].may_consume(state, rest)

    def left_context(self, text: str) -> tuple[object, int]:
        """Return what the splitting of later text depends on, and where the part of ``text`` begins
        that determines it.

        The first is a value to compare: after texts with equal ones, what follows is split alike.
        May raise SplitUncertainError.
        """
        return self._left_context(text, 0)

    def _left_context(self, text: str, number: int) -> tuple[object, int]:
        """``left_context`` by the stages from ``number`` on.

        The value has, for each split by the first of these stages, its state, and the value of the
        later stages for its open piece. The first split has the longest open piece, so the part
        from there on determines all of them.

        Whatever a later piece can depend on has to be in the value: ``LeftContexts`` treats texts
        with equal values alike.
        """
        if number == len(self._stages):
            return (), len(text)
        splits = self._split_by_stage(text, number)
        meanings = [
            (split.state, split.is_between, self._left_context(text[split.begin :], number + 1)[0])
            for split in splits
        ]
        return tuple(meanings), splits[0].begin

    def _cuts(self, text: str, number: int) -> Cuts:
        """Return where the stages from ``number`` on cut a complete text."""
        if number == len(self._stages) or not text:
            return ()
        cuts = _cut_complete_text(self._stages[number], text)
        return cuts if number + 1 == len(self._stages) else self._refine(text, cuts, number + 1)

    def _refine(self, text: str, cuts: Cuts, number: int) -> Cuts:
        """Return the cuts, with those that the stages from ``number`` on add inside the pieces.

        ``cuts`` are those of the stage before ``number``, and ascend; so does the result.
        """
        found: list[int] = []
        for begin, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
            if begin:
                found.append(begin)
            found += [begin + cut for cut in self._cuts(text[begin:end], number)]
        return tuple(found)

    def _possible_cuts(self, text: str, number: int) -> list[Cuts]:
        """Return the possible cuts, by the stages from ``number`` on, of a text that may continue.

        Some may occur more than once. May raise SplitUncertainError.
        """
        if number == len(self._stages):
            return [()]
        splits = self._split_by_stage(text, number)
        if number + 1 == len(self._stages):
            return [split.cuts for split in splits]
        found = []
        for split in splits:
            before = self._refine(text[: split.begin], split.cuts[:-1], number + 1)
            if split.begin:
                before += (split.begin,)
            rest = text[split.begin :]
            inner = self._possible_cuts(rest, number + 1)
            # The piece of this stage may end with the text, and is all that the next stage sees.
            inner.append((*self._cuts(rest, number + 1), len(rest)))
            found += [(*before, *(split.begin + cut for cut in cuts)) for cuts in inner]
        return found

    def _split_by_stage(self, text: str, number: int) -> list[_PartialSplit]:
        """Return the splits by one stage alone, the one with the longest open piece first.

        There is at least one. Raises SplitUncertainError if a match has begun that may still
        fail, and nothing shorter matched: then it is not known where the next piece begins.
        """
        stage = self._stages[number]
        splits: list[_PartialSplit] = []
        cuts: list[int] = []
        begin, is_between = 0, False
        while begin < len(text):
            state, last = stage.match(text, begin)
            # No match begins here, whatever follows: the character stands between matches.
            if last is None and state == DEAD:
                begin, is_between = _pass_character(cuts, begin, is_between)
                continue
            if begin:
                cuts.append(begin)
            # The match may continue beyond the text, which makes this piece the open one. Unless it
            # is sure to end in a match, it may also have ended at ``last``, which is looked at
            # next.
            if state != DEAD:
                splits.append(_PartialSplit(tuple(cuts), state, is_between=False))
                if stage.is_sure_to_match(state):
                    return splits
            if last is None:
                raise SplitUncertainError(text)
            begin, is_between = last, False
        splits.append(_PartialSplit(tuple(cuts), DEAD, is_between))
        return splits


def _cut_complete_text(stage: SplitAutomaton, text: str) -> Cuts:
    """Return where one stage cuts a complete text: its matches, and what stands between them."""
    cuts: list[int] = []
    begin, is_between = 0, False
    while begin < len(text):
        state, last = stage.match(text, begin)
        if state != DEAD and stage.matches_at_end(state):
            last = len(text)
        if last is None:
            begin, is_between = _pass_character(cuts, begin, is_between)
            continue
        if begin:
            cuts.append(begin)
        begin, is_between = last, False
    return tuple(cuts)


def _pass_character(cuts: list[int], begin: int, is_between: bool) -> tuple[int, bool]:
    """Pass a character at which no match begins; returns the next place, and True for "between".

    It is in one piece with such characters before it, so only the first of them adds a cut.

    ``cuts`` is changed in place.
    """
    if begin and not is_between:
        cuts.append(begin)
    return begin + 1, True
