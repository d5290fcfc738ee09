"""What the mask of a state depends on: states with equal keys have equal masks."""

from __future__ import annotations

from typing import Final, NamedTuple

from guided.machine.recognizer import State
from guided.machine.table import DEAD, HIGH, LOW, ONLY, OVERLAID_ROW, PLAIN, ROLE
from guided.masks.independent import IndependentMasks
from guided.masks.independent_kernels import MAX_COUNT
from guided.masks.outline import NO_HORIZON, Outline, outline_of
from guided.masks.outline_kernels import num_bytes_leading_on
from guided.masks.packed import PackedMachine

__all__ = ["COUNTS_NOTHING", "MaskKey", "MaskKeys", "RowTraits", "mask_key", "row_traits"]

COUNTS_NOTHING: Final = 2**32
"""In place of ``RowTraits.high``, beyond every bound."""
_FEW_BYTES: Final = 32
"""A row with fewer bytes that lead on is quicker to walk than to remember."""


class MaskKey(NamedTuple):
    """The key of a mask, and of the walk that finds it.

    ``StateMasks`` makes two other kinds: that of a walk that is the same in all stacks, with a
    number that no stack has, and that of a truncated stack, where ``left`` is 1 if the text may
    end.

    Code points are counted as far as tokens reach, where the row has an outline. Without one there
    is no greatest count, so states with different counts share no mask.
    """

    stack: int
    row: int
    missing: int = 0
    """Code points that a string still needs; may be negative without an outline."""
    left: int = 0
    """Code points that a string may still have."""


_new: Final = tuple.__new__


def mask_key(stack: int, row: int, missing: int = 0, left: int = 0) -> MaskKey:
    """Construct a ``MaskKey``, faster than by its name, as every mask needs one."""
    return _new(MaskKey, (stack, row, missing, left))


class RowTraits(NamedTuple):
    """What walks from a row have to know about it, as plain Python values."""

    low: int
    high: int
    """The bounds that it counts against; COUNTS_NOTHING where it counts nothing."""
    overlaid_row: int
    """For an overlay the row below, whose mask is corrected to make its own; else DEAD."""
    outline: Outline | None = None
    """By what a row in a string shares its context-independent mask."""
    max_count: int = 0
    """That of its context-independent mask; MAX_COUNT with a horizon, where it is not known."""


_ONE_BYTE_TRAITS: Final = RowTraits(0, COUNTS_NOTHING, DEAD)
"""The traits of a row that only one byte leads on from. Rows that spell names and listed texts are
such, and there are many, so they share one object."""


def row_traits(packed: PackedMachine, row: int, max_bytes: int) -> RowTraits:
    """Return the traits of a row, all but ``max_count``, which ``MaskKeys.traits`` fills in.

    Tokens are at most ``max_bytes`` bytes long.
    """
    columns = packed.row(row)
    # An overlay's OVERLAID_ROW is left out here: following one byte is quicker than making the mask
    # of the row below and correcting it, and gives the same result.
    if columns[ONLY] != DEAD and columns[ROLE] == PLAIN and columns[HIGH] < 0:
        return _ONE_BYTE_TRAITS
    high, overlaid_row = columns[HIGH], columns[OVERLAID_ROW]
    high = COUNTS_NOTHING if high < 0 else high
    # The mask of an overlay corrects the mask below, so it needs no outline of its own.
    if overlaid_row != DEAD:
        return RowTraits(columns[LOW], high, overlaid_row)
    is_narrow = num_bytes_leading_on(packed.addresses(), row) < _FEW_BYTES
    outline = None if is_narrow else outline_of(packed.current(), row, max_bytes)
    return RowTraits(columns[LOW], high, overlaid_row, outline)


class MaskKeys:
    """The traits of one machine's rows, each found once, and the keys of its states.

    Not thread-safe, because the machine may grow: callers hold the lock of the
    ``CompiledConstraint``.
    """

    def __init__(self, columns: PackedMachine, independent: IndependentMasks) -> None:
        self._packed = columns
        self._independent = independent
        self._traits: dict[int, RowTraits] = {}
        """By row. Never dropped: a row that states are in does not change any more."""

    def key_of(self, state: State) -> MaskKey:
        """Return the key of the mask of a state.

        The texts of a state are left out on purpose, so that states share a walk: ``StateMasks``
        corrects the mask afterwards for the tokens to which they matter. Everything else that a
        mask depends on has to be in the key, or a wrong mask is returned.
        """
        stack, row, count, _ = state
        traits = self._traits.get(row) or self.traits(row)  # mostly saves the call
        if traits.high == COUNTS_NOTHING:
            return mask_key(stack, row)
        missing, left = traits.low - count, traits.high - count
        # Beyond what tokens can count the bounds make no difference: such states share a mask.
        # Without an outline it is not known how far that is. What is missing may be one more than
        # a token counts, as no token may then end the text.
        if traits.outline is not None:
            missing, left = min(max(missing, 0), traits.max_count + 1), min(left, traits.max_count)
        return mask_key(stack, row, missing, left)

    def traits(self, row: int) -> RowTraits:
        """Return what walks from a row have to know about it.

        It may walk the trie to make the context-independent mask of a row that counts code points.
        """
        found = self._traits.get(row)
        if found is None:
            found = row_traits(self._packed, row, self._independent.trie.longest)
            outline = found.outline
            if outline is not None and found.high != COUNTS_NOTHING:
                max_count = MAX_COUNT  # how much is counted beyond a horizon is not known
                if outline.horizon == NO_HORIZON:
                    max_count = self._independent.get(
                        self._packed.current(), row, outline
                    ).max_count
                found = found._replace(max_count=max_count)
            self._traits[row] = found
        return found
