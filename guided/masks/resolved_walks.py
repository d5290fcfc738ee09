"""Walks in compiled code, continued past transitions that Python has to resolve.

A kernel knows only stack transitions that are resolved. At any other it stops and reports which;
Python resolves it and calls the kernel again, which continues from the same node. So each
transition costs Python once in the life of a machine, and a kernel never calls Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.machine.recognizer import State
from guided.masks.mask import Mask
from guided.masks.mask_delta import MaskDelta
from guided.masks.packed import PackedMachine, Scratch
from guided.masks.trie import TokenTrie
from guided.masks.trie_kernels import correct_mask
from guided.masks.walk import KeptWalk, Walk
from guided.masks.walk_kernels import walk_sites
from guided.masks.walk_path import FINISHED
from guided.runtime.addresses import addresses_of
from guided.runtime.of_thread import OfThread

__all__ = ["NOTHING_UNCERTAIN", "ResolvedWalks"]

NOTHING_UNCERTAIN: Final = np.empty((0, 4), dtype=np.int32)
"""No sites, in the form of ``Walk.uncertain``."""
_Stopped: TypeAlias = tuple[int, int, int, int, int, int]
"""What kernels return: whether they finished, then what ``walk_sites`` describes."""


class ResolvedWalks:
    """Calls the kernels that walk ``trie`` until they meet no missing transition.

    The mask of a walk is in ``scratch``: the next walk of the thread overwrites it.
    """

    def __init__(self, packed: PackedMachine, trie: TokenTrie, scratch: OfThread[Scratch]) -> None:
        self._packed = packed
        self._scratch = scratch
        # The trie never changes, so its arrays stay where they are.
        self._trie = addresses_of(trie.arrays)

    def below_sites(
        self,
        first: MaskDelta,
        base: Mask,
        fingerprint: int,
        state: State,
        home: int,
        sites: NDArray[np.int32],
        closings: NDArray[np.int32],
        missing: int,
        left: int,
    ) -> tuple[Walk, int]:
        """What is allowed below the sites, added to the mask ``first``; and how many nodes it put
        off.

        The caller has to walk the nodes that were put off (``Scratch.put_off``).

        ``base`` is the mask that the result is kept as changes of; ``fingerprint`` is the number
        to which the walk adds those of the tokens that it sets. Other arguments are those of
        ``walk_sites``.

        The walk's mask is scratch memory, which the next walk of the thread overwrites; uncertain
        sites are copied out of it.
        """
        stack, row, count, _ = state
        doubts, change, has_asked, put_off = self._finished(
            walk_sites,
            *(home, stack, row, count, first.base, first.changes, sites, closings, missing, left),
        )
        scratch = self._scratch.get()
        uncertain = scratch.uncertain[:doubts].copy() if doubts else NOTHING_UNCERTAIN
        return Walk(scratch.words, base, fingerprint ^ change, uncertain, not has_asked), put_off

    def corrected(self, base: KeptWalk, state: State, like: int) -> Walk:
        """Return the walk of a row, made from ``base``, that of ``like``, over which it was laid.

        ``is_local`` then says that nothing of ``base`` has changed.
        """
        stack, row, count, _ = state
        delta = base.delta
        doubts, change, has_asked, _ = self._finished(
            correct_mask, stack, row, count, delta.base, delta.changes, like
        )
        scratch = self._scratch.get()
        uncertain = np.concatenate([base.uncertain, scratch.uncertain[:doubts]])
        fingerprint = base.held.fingerprint ^ change
        return Walk(scratch.words, delta.base, fingerprint, uncertain, not has_asked)

    def _finished(self, kernel: Callable[..., _Stopped], *told: Any) -> tuple[int, int, int, int]:
        """Call a kernel until it has finished.

        Returns how many sites it left uncertain, the change of the fingerprint, whether it looked
        at the stack, and how many nodes it put off.
        """
        addresses = self._scratch.get().addresses
        again = False
        # What the kernel knows when it stops is in the scratch. Resolving a transition may move
        # the arrays of the machine, so their addresses are taken each time.
        while True:
            status, doubts, change, at, action, put_off = kernel(
                self._trie, self._packed.addresses(), addresses, *told, again
            )
            if status == FINISHED:
                return doubts, change, at, put_off
            self._packed.resolve(at, action)
            again = True
