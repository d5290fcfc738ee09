"""What a walk over the trie of a vocabulary finds: a mask, and tokens left uncertain."""

from __future__ import annotations

from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from guided.masks.held_mask import HeldMask
from guided.masks.mask import Mask
from guided.masks.mask_delta import MaskDelta

__all__ = ["KeptWalk", "Walk"]


@final
class Walk:
    """What a walk found; its fields never change."""

    # No named tuple, here and below: one is made for every mask, and named tuples took 6 % of the
    # time of masks.
    __slots__ = ("base", "is_stack_independent", "mask", "uncertain")

    def __init__(
        self,
        mask: Mask,
        base: Mask,
        uncertain: NDArray[np.int32],
        is_stack_independent: bool = False,
    ) -> None:
        self.mask: Final = mask
        """Tokens all of whose bytes may follow; uncertain tokens may be set or not. Valid until the
        thread's next walk, which overwrites it."""
        self.base: Final = base
        """A mask that it hardly differs from, and that never changes."""
        self.uncertain: Final = uncertain
        """Sites whose tokens have to be tried on the exact state, as ``walk_sites`` takes them.

        For stacks that are not truncated they are nodes whose own tokens and those below are
        uncertain.
        """
        self.is_stack_independent: Final = is_stack_independent
        """Whether it is the same in all stacks."""

    def for_one_stack(self) -> Walk:
        """Return the walk, not marked as the same in all stacks.

        ``StateMasks`` would otherwise remember it for every stack. The mask is the same memory.
        """
        return Walk(self.mask, self.base, self.uncertain)

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


@final
class KeptWalk:
    """A walk whose mask is kept: unlike that of a ``Walk``, it lasts. Its fields never change."""

    __slots__ = ("delta", "held", "uncertain")

    def __init__(self, held: HeldMask, delta: MaskDelta, uncertain: NDArray[np.int32]) -> None:
        self.held: Final = held
        self.delta: Final = delta
        """The mask, which the store may remove from its holder."""
        self.uncertain: Final = uncertain
