"""What the mask of a state depends on: states with equal keys have equal masks."""

from __future__ import annotations

from typing import Final, NamedTuple

from guided.machine.recognizer import State
from guided.machine.table import DEAD, HIGH, LABEL, LOW, ONLY, OVERLAID_ROW, PLAIN, ROLE
from guided.masks.independent import IndependentMasks
from guided.masks.independent_kernels import MAX_COUNT
from guided.masks.machine_kernels import MachineArrays
from guided.masks.outline import NO_HORIZON, Outline, outline_of
from guided.masks.outline_kernels import survey_bytes
from guided.masks.packed import PackedMachine

__all__ = ["COUNTS_NOTHING", "MaskKey", "MaskKeys", "RowTraits", "row_traits"]

COUNTS_NOTHING: Final = 2**32
_FEW_BYTES: Final = 32
"""A row with fewer bytes that lead on is quicker to walk than to remember."""


class MaskKey(NamedTuple):
    """The key of a mask, and of the walk that finds it.

    ``StateMasks`` makes two other kinds: that of a walk that is the same in all stacks, with a
    number that no stack has, and that of a truncated stack, where ``left`` is 1 if the text may
    end.
    """

    stack: int
    row: int
    missing: int = 0
    """Code points that a string still needs, counted as far as tokens reach."""
    left: int = 0
    """Code points that a string may still have, counted as far as tokens reach."""


class RowTraits:
    """What walks from a row have to know about it, as plain Python values."""

    __slots__ = ("high", "like", "low", "most", "outline", "takes_blanks")

    def __init__(
        self,
        low: int,
        high: int,
        like: int,
        outline: Outline | None = None,
        most: int = 0,
        *,
        takes_blanks: bool = False,
    ) -> None:
        self.low: Final = low
        self.high: Final = high
        """The bounds that it counts against; COUNTS_NOTHING where it counts nothing."""
        self.like: Final = like
        """The row that it was laid over and whose mask it corrects; DEAD for none."""
        self.outline: Final = outline
        """By what a row in a string shares its context-independent mask."""
        self.most: Final = most
        """The greatest count of its context-independent mask."""
        self.takes_blanks: Final = takes_blanks
        """Whether white space may stand there and changes nothing; see ``white_space``."""


_IN_CHAIN: Final = RowTraits(0, COUNTS_NOTHING, DEAD)
"""The traits of a row that only one byte leads on from. Rows that spell names and listed texts are
such, and there are many, so they share one object."""


def row_traits(arrays: MachineArrays, row: int, reach: int) -> RowTraits:
    """Return the traits of a row, all but ``most``, which ``MaskKeys.traits`` fills in.

    Tokens are at most ``reach`` bytes long.
    """
    packed = arrays.rows[row].tolist()
    # An overlay's OVERLAID_ROW is left out here: following one byte is quicker than making the mask of the
    # row below and correcting it, and gives the same result.
    if packed[ONLY] != DEAD and packed[ROLE] == PLAIN and packed[HIGH] < 0:
        return _IN_CHAIN
    high, like = packed[HIGH], packed[OVERLAID_ROW]
    high = COUNTS_NOTHING if high < 0 else high
    # The mask of an overlay corrects the mask below, so it needs no outline of its own.
    if like != DEAD:
        return RowTraits(packed[LOW], high, like)
    leading, stays = survey_bytes(arrays, row)
    outline = None if leading < _FEW_BYTES else outline_of(arrays, row, reach)
    # A count distinguishes blanks. With an exit action each site would be uncertain separately,
    # while a walk from the row finds one doubt for all.
    takes_blanks = stays and outline is None and packed[HIGH] < 0 and packed[LABEL] == DEAD
    return RowTraits(packed[LOW], high, like, outline, takes_blanks=takes_blanks)


class MaskKeys:
    """The traits of one machine's rows, each found once, and the keys of its states.

    Not thread-safe, because the machine may grow: callers hold the lock of the
    ``CompiledConstraint``.
    """

    def __init__(self, packed: PackedMachine, independent: IndependentMasks) -> None:
        self._packed = packed
        self._independent = independent
        self._traits: dict[int, RowTraits] = {}
        """By row. Never dropped: a row that states are in does not change any more."""

    def of(self, state: State) -> MaskKey:
        """Return the key of the mask of a state.

        The texts of a state are left out on purpose, so that states share a walk: ``StateMasks``
        corrects the mask afterwards for the tokens to which they matter. Everything else that a
        mask depends on has to be in the key, or a wrong mask is returned.
        """
        stack, row, count, _ = state
        traits = self._traits.get(row) or self.traits(row)
        if traits.high == COUNTS_NOTHING:
            return MaskKey(stack, row)
        missing, left = traits.low - count, traits.high - count
        # Beyond what tokens can count the bounds make no difference: such states share a mask.
        if traits.outline is not None:
            missing, left = min(max(missing, 0), traits.most + 1), min(left, traits.most)
        return MaskKey(stack, row, missing, left)

    def traits(self, row: int) -> RowTraits:
        """Return what walks from a row have to know about it.

        It may walk the trie to make the context-independent mask of a row that counts code points.
        """
        traits = self._traits.get(row)
        if traits is None:
            arrays = self._packed.current()
            traits = row_traits(arrays, row, self._independent.trie.longest)
            outline = traits.outline
            if outline is not None and traits.high != COUNTS_NOTHING:
                most = MAX_COUNT  # how much is counted beyond a horizon is not known
                if outline.horizon == NO_HORIZON:
                    most = self._independent.get(arrays, row, outline).most
                traits = RowTraits(traits.low, traits.high, traits.like, outline, most)
            self._traits[row] = traits
        return traits
