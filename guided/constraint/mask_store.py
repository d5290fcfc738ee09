"""Finished masks: equal ones stored once, all of them bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final
from weakref import ref

from guided.constraint.held_mask import HeldMask
from guided.constraint.mask_memory import MaskMemory
from guided.tokens.mask import Mask, same

__all__ = ["MaskStore"]

_LOOKED_AT: Final = 2


class MaskStore:
    """Keeps masks of one vocabulary up to ``max_bytes``; safe to use from several threads.

    When it is full it goes round the holders in the order in which they came, and empties those
    that were not used since the last round (the clock algorithm). Holders that nobody has any more,
    because their constraints are gone, are found on the way.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        """Bytes held now."""
        self._holders: OrderedDict[int, tuple[ref[HeldMask], int]] = OrderedDict()
        """By fingerprint, or a number behind it where that is taken, each with its bytes."""
        self._memory: MaskMemory | None = None
        self._lock = threading.Lock()

    def keep(self, found: Mask, fingerprint: int) -> tuple[HeldMask, Mask]:
        """The holder of a mask that was found, and what it holds, which is read-only."""
        key = fingerprint
        with self._lock:
            while (known := self._holders.get(key)) is not None:
                held = known[0]()
                if held is None:
                    self._let_go(key)
                    break
                mask = held.mask
                assert mask is not None, "emptied holders are let go"
                if same(mask, found):
                    held.used = True
                    return held, mask
                key += 1
            if self._memory is None:
                self._memory = MaskMemory(len(found))
            mask = self._memory.take()
            mask[:] = found
            mask.flags.writeable = False
            held = HeldMask(mask, fingerprint)
            self._holders[key] = ref(held), mask.nbytes
            self.nbytes += mask.nbytes
            # One comes and two are looked at: those that are gone are never more than the others.
            for _ in range(_LOOKED_AT):
                self._pass_one()
            while self.nbytes > self.max_bytes:
                self._evict()
        return held, mask

    def __len__(self) -> int:
        """Holders that the store knows of."""
        return len(self._holders)

    def _pass_one(self) -> None:
        """Go on by one holder, and forget it if nobody has it."""
        if self._holders:
            key, (holder, _) = next(iter(self._holders.items()))
            if holder() is None:
                self._let_go(key)
            else:
                self._holders.move_to_end(key)

    def _evict(self) -> None:
        key, (holder, _) = next(iter(self._holders.items()))
        held = holder()
        if held is not None:
            if held.used:
                held.used = False
                self._holders.move_to_end(key)
                return
            held.mask = None
        self._let_go(key)

    def _let_go(self, key: int) -> None:
        _, nbytes = self._holders.pop(key)
        self.nbytes -= nbytes
