"""Masks kept as the words in which each differs from a mask that many have in common.

A mask of 128,000 tokens is 16 KiB. A walk begins from the mask of no tokens or that of the inside
of a string; it changes only a few words in half of all cases, and a twentieth of them in nearly
all. Kept as changes, a mask takes less memory than the walk that made it, and no new pages.
"""

from __future__ import annotations

import threading
from array import array
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.masks.mask import Mask, only_token
from guided.masks.mask_kernels import fill_words, find_changes, word_at

__all__ = ["MaskDelta", "changes_from", "delta_of"]

_LARGE_SHARE: Final = 4
"""A mask that changes more than one in this many words of another is kept whole."""

_address_lock: Final = threading.Lock()
"""Held while ``MaskDelta.address`` of any mask is made."""


class MaskDelta:
    """One mask: ``base``, which is read-only, with some words replaced."""

    __slots__ = ("_address", "_only_token", "_record", "base", "changes")

    def __init__(self, base: Mask, changes: NDArray[np.int32]) -> None:
        self.base: Final = base
        self.changes: Final = changes
        """int32 ``[changes, 2]``: the places of words, ascending, and the words, each of which
        differs from that of the base."""
        self._record: array[int] | None = None
        """The array that ``address`` points to, made when first needed and then never replaced."""
        self._address = 0
        self._only_token: int | None = -1
        """The result of ``only_token``, -1 until it is first called."""

    @property
    def address(self) -> int:
        """Where ``fill_rows`` finds the mask, for as long as this object lives.

        It is the address of int64 ``[4]``: the address and the number of words of the base, then
        the address and the number of the changes.
        """
        if not self._address:
            base, changes = self.base.ctypes.data, self.changes.ctypes.data
            with _address_lock:  # an address that another thread has must stay good
                if self._record is None:
                    counts = len(self.base), len(self.changes)
                    self._record = array("q", (base, counts[0], changes, counts[1]))
                self._address = self._record.buffer_info()[0]
        return self._address

    def fill(self, out: Mask) -> None:
        """Write the mask to ``out``; raises ValueError if that has another size."""
        if len(out) != len(self.base):
            raise ValueError(f"a mask of {len(self.base)} words does not fit {len(out)}")
        fill_words(self.base, self.changes, out)

    def mask(self) -> Mask:
        """Return the mask in fresh memory."""
        out = np.empty_like(self.base)
        fill_words(self.base, self.changes, out)
        return out

    def allows(self, token: int) -> bool:
        """Return whether the mask allows a token; raises IndexError if it has no such token."""
        if not 0 <= token >> 5 < len(self.base):
            raise IndexError(f"token {token} of a mask of {len(self.base)} words")
        return bool(word_at(self.base, self.changes, token >> 5) >> (token & 31) & 1)

    def only_token(self) -> int | None:
        """Return the only allowed token, or ``None`` if several or none are allowed.

        The result is kept. ``None`` is a result, so it cannot mark one that is not known yet.
        """
        if self._only_token == -1:
            self._only_token = only_token(self.mask())
        return self._only_token


def changes_from(mask: Mask, base: Mask, room: NDArray[np.int32]) -> NDArray[np.int32] | None:
    """Return what ``mask`` changes of ``base``; ``None`` if so much that it is better kept whole.

    The result is int32 ``[changes, 2]`` in ``room``, int32 ``[words, 2]`` of scratch memory.
    """
    count = find_changes(mask, base, room)
    return None if count * _LARGE_SHARE > len(mask) else room[:count]


def delta_of(mask: Mask, base: Mask, changes: NDArray[np.int32] | None) -> MaskDelta:
    """Return a mask as ``changes`` of a read-only base, or whole for ``None``: its own base.

    ``mask`` and ``changes`` are copied, so the caller may change both again; ``base`` is kept by
    reference, and must never be written to.
    """
    if changes is not None:
        return MaskDelta(base, changes.copy())
    whole = mask.copy()
    whole.flags.writeable = False
    return MaskDelta(whole, np.empty((0, 2), dtype=np.int32))
