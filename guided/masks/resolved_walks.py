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
from guided.masks.walk_path import FINISHED, SITE_WIDTH
from guided.runtime.addresses import addresses_of
from guided.runtime.per_thread import PerThread

__all__ = ["NOTHING_UNCERTAIN", "ResolvedWalks"]

NOTHING_UNCERTAIN: Final = np.empty((0, SITE_WIDTH), dtype=np.int32)
"""No sites, in the form of ``Walk.uncertain``."""
_Stopped: TypeAlias = tuple[int, int, int, int, int]
"""What kernels return: whether they finished, then what ``walk_sites`` describes."""


class ResolvedWalks:
    """Calls the kernels that walk ``trie`` until they meet no missing transition.

    The mask of a walk is in ``scratch``: the next walk of the thread overwrites it.
    """

    def __init__(self, packed: PackedMachine, trie: TokenTrie, scratch: PerThread[Scratch]) -> None:
        self._packed = packed
        self._scratch = scratch
        # The trie never changes, so its arrays stay where they are.
        self._trie = addresses_of(trie.arrays)

    def walk_below_sites(
        self,
        first: MaskDelta,
        base: Mask,
        state: State,
        is_truncated: bool,
        sites: NDArray[np.int32],
        closing_rows: NDArray[np.int32],
        missing: int,
        left: int,
    ) -> tuple[Walk, int]:
        """Return the walk below the sites, added to mask ``first``, and how many nodes it deferred.

        The caller has to walk the deferred nodes (``Scratch.deferred``).

        ``base`` is the mask that the result is kept as changes of. Other arguments are those of
        ``walk_sites``.

        The walk's mask is scratch memory, which the next walk of the thread overwrites; uncertain
        sites are copied out of it.
        """
        stack, row, count, _ = state
        scratch = self._scratch.get()
        num_uncertain, has_read_stack, num_deferred = self._run_to_end(
            scratch,
            walk_sites,
            *(is_truncated, stack, row, count, first.base, first.changes),
            *(sites, closing_rows, missing, left),
        )
        uncertain = scratch.uncertain[:num_uncertain].copy() if num_uncertain else NOTHING_UNCERTAIN
        walk = Walk(scratch.words, base, uncertain, not has_read_stack)
        return walk, num_deferred

    def correct(self, base: KeptWalk, state: State, overlaid_row: int) -> Walk:
        """Return the walk of an overlay, made from ``base``, which is that of ``overlaid_row``.

        ``base`` is of the state that ``StateSharing.overlaid_state`` returns, with the same count
        and no truncated stack. All its uncertain sites stay, also where the kernel has walked
        again: one too many costs time, as it is only tried on the exact state.
        """
        stack, row, count, _ = state
        delta, scratch, uncertain = base.delta, self._scratch.get(), base.uncertain
        num_uncertain, _, _ = self._run_to_end(
            scratch, correct_mask, stack, row, count, delta.base, delta.changes, overlaid_row
        )
        if num_uncertain:
            uncertain = np.concatenate([uncertain, scratch.uncertain[:num_uncertain]])
        return Walk(scratch.words, delta.base, uncertain)

    def _run_to_end(
        self, scratch: Scratch, kernel: Callable[..., _Stopped], *args: Any
    ) -> tuple[int, int, int]:
        """Call a kernel until it has finished, adding missing transitions in between.

        ``args`` are its arguments after the addresses and before ``is_resumed``.

        Returns the number of uncertain sites, whether the stack was read, and the number of
        deferred nodes.
        """
        is_resumed = False
        # When the kernel stops, its progress is in the scratch. Resolving a transition may move
        # the arrays of the machine, so their addresses are taken each time.
        while True:
            status, num_uncertain, stack, action, num_deferred = kernel(
                self._trie, self._packed.addresses(), scratch.addresses, *args, is_resumed
            )
            if status == FINISHED:
                return num_uncertain, stack, num_deferred
            self._packed.resolve(stack, action)
            is_resumed = True
