"""Finished masks: equal ones stored once, all together bounded in bytes."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final, TypeAlias
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from guided.masks.held_mask import HeldMask
from guided.masks.mask import Mask
from guided.masks.mask_counts import MaskCounts
from guided.masks.mask_delta import MaskDelta, changes_from, delta_of

__all__ = ["MaskStore"]

_CLOCK_STEPS: Final = 2
_HOLDER_BYTES: Final = 512
"""About what a mask takes besides its words."""
_Key: TypeAlias = tuple[int, int]
"""The ``id`` of the base and the hash of the changes; 0 and the hash of the words for a mask that
is kept whole."""


class _Entry:
    """What the store knows about one holder, without keeping it alive.

    ``base`` is the ``id`` of the base. If all holders of a base are gone but not yet forgotten,
    another base may get the same number; the two then count as one of the same size.
    """

    __slots__ = ("base", "holder", "nbytes")

    def __init__(self, holder: ref[HeldMask], delta: MaskDelta) -> None:
        self.holder: Final = holder
        self.base: Final = id(delta.base)
        self.nbytes: Final = _HOLDER_BYTES + delta.changes.nbytes


class _Base:
    """A mask from which others are kept as changes."""

    __slots__ = ("masks", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes: Final = nbytes
        self.masks = 0


class MaskStore:
    """Keeps masks of one vocabulary up to ``max_bytes``; safe to use from several threads.

    When it is full it goes round the holders in the order in which they came, and empties those
    that were not used since the last round (the clock algorithm). On the way, and a little further
    with each mask that comes, it drops entries of holders that nothing refers to any more, because
    their constraints are gone.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.counts: Final = MaskCounts()
        self.nbytes = 0
        """About how many bytes are held: of each entry, and of each base once."""
        self._entries: dict[_Key, _Entry] = {}
        self._clock: deque[_Key] = deque()
        """The keys of all entries: the first one is looked at next."""
        self._bases: dict[int, _Base] = {}
        """By ``_Entry.base``, with the number of entries that have it."""
        self._room: NDArray[np.int32] = np.empty((0, 2), dtype=np.int32)
        """Scratch memory for ``changes_from``, grown to the largest mask."""
        self._lock = threading.Lock()
        """Held while any of these is read or changed. Holders are read without it, and marked as
        used."""

    def keep(self, found: Mask, base: Mask) -> tuple[HeldMask, MaskDelta]:
        """Return the holder of a mask, and the mask that it holds.

        The mask is kept as its changes from ``base``, which must never change; ``found`` is copied.
        The mask is returned beside its holder, as the store may have emptied that again. Equal
        masks share a holder if they come with the same base.
        """
        with self._lock:
            self.counts.made += 1
            if len(self._room) < len(found):
                self._room = np.empty((len(found), 2), dtype=np.int32)
            changes = changes_from(found, base, self._room)
            # As long as a mask is held its base is too, so no other base has its ``id``.
            content = found.tobytes() if changes is None else changes.tobytes()
            key = 0 if changes is None else id(base), hash(content)
            entry = self._entries.get(key)
            if entry is not None:
                held = entry.holder()
                if held is not None:
                    delta = held.delta
                    assert delta is not None, "the entry of an emptied holder is removed"
                    words = delta.base if changes is None else delta.changes
                    if words.tobytes() == content:
                        held.used = True
                        return held, delta
            delta = delta_of(found, base, changes)
            held = HeldMask(delta)
            if entry is None:
                self._clock.append(key)
            else:
                self._remove(key)
            self._add_entry(key, _Entry(ref(held), delta), delta.base.nbytes)
            # Two are looked at for each that comes, so in the long run no more holders are dead
            # than alive.
            for _ in range(_CLOCK_STEPS):
                self._advance_clock()
            while self.nbytes > self.max_bytes:
                self._evict_next()
        return held, delta

    def check(self) -> None:
        """Raise AssertionError unless the counted bytes are those of the masks held.

        Takes no lock, so nothing else may use the store meanwhile.
        """
        entries = self._entries.values()
        bases = self._bases.values()
        assert self.nbytes == sum(e.nbytes for e in entries) + sum(b.nbytes for b in bases)
        assert sum(base.masks for base in bases) == len(entries)
        assert {entry.base for entry in entries} == self._bases.keys()
        assert sorted(self._clock) == sorted(self._entries)

    def _add_entry(self, key: _Key, entry: _Entry, base_bytes: int) -> None:
        """Add an entry, whose key is in the clock; the first one of a base counts its bytes.

        This and the methods after it are called with the lock held.
        """
        self._entries[key] = entry
        base = self._bases.get(entry.base)
        if base is None:
            base = self._bases[entry.base] = _Base(base_bytes)
            self.nbytes += base_bytes
        base.masks += 1
        self.nbytes += entry.nbytes

    def _advance_clock(self) -> None:
        """Move the clock on by one holder; remove its entry if nothing refers to the holder.

        A holder that something refers to is put last and otherwise left alone: only
        ``_evict_next``, which runs when the store is full, looks at ``used`` and empties holders.
        """
        if self._clock:
            key = self._clock.popleft()
            if self._entries[key].holder() is None:
                self._remove(key)
            else:
                self._clock.append(key)

    def _evict_next(self) -> None:
        """Empty the next holder, or give it another round if it was used since the last one.

        There is always one: without holders the store has no bytes, and so is not full.
        """
        key = self._clock.popleft()
        held = self._entries[key].holder()
        if held is not None and held.used:
            held.used = False
            self._clock.append(key)
        else:
            self._remove(key)

    def _remove(self, key: _Key) -> None:
        """Empty a holder and remove its entry, and its base with the last entry that has it.

        The caller has taken the key out of the clock, or adds another entry for it.
        """
        entry = self._entries.pop(key)
        held = entry.holder()
        if held is not None:
            held.delta = None
        self.nbytes -= entry.nbytes
        base = self._bases[entry.base]
        base.masks -= 1
        if not base.masks:
            del self._bases[entry.base]
            self.nbytes -= base.nbytes
