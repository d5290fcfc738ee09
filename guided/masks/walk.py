"""What a walk over the trie of a vocabulary finds: a mask, and tokens left uncertain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.masks.held_mask import HeldMask
from guided.masks.mask import Mask
from guided.masks.mask_delta import MaskDelta

__all__ = ["KeptWalk", "Walk"]


class Walk(NamedTuple):
    """What a walk found."""

    mask: Mask
    """Tokens all of whose bytes may follow; uncertain tokens may be set or not. Valid until the
    thread's next walk, which overwrites it."""
    base: Mask
    """A mask that it hardly differs from, and that never changes."""
    uncertain: NDArray[np.int32]
    """Sites whose tokens have to be tried on the exact state, as ``walk_sites`` takes them.

    For stacks that are not truncated they are nodes whose own tokens and those below are
    uncertain.
    """
    is_stack_independent: bool = False
    """Whether it is the same in all stacks."""

    def for_one_stack(self) -> Walk:
        """Return the walk, not marked as the same in all stacks.

        ``StateMasks`` would otherwise remember it for every stack. The mask is the same memory.
        """
        return self._replace(is_stack_independent=False)

    def join_to(self, into: Walk) -> Walk:
        """Return this walk and ``into`` as one; it has added its tokens to the mask of ``into``.

        Both belong to the walk of one state, below different nodes. ``into.mask`` is the same
        memory and has been overwritten, so it is not read; everything else of ``into`` counts.
        """
        return Walk(
            self.mask,
            into.base,
            np.concatenate([into.uncertain, self.uncertain]),
            into.is_stack_independent and self.is_stack_independent,
        )


class KeptWalk(NamedTuple):
    """A walk whose mask is kept: unlike that of a ``Walk``, it lasts."""

    held: HeldMask
    delta: MaskDelta
    """The mask, which the store may remove from its holder."""
    uncertain: NDArray[np.int32]
