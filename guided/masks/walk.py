"""What a walk over the trie of a vocabulary finds: a mask, and tokens left uncertain."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.masks.held_mask import HeldMask
from guided.masks.mask import Mask
from guided.masks.mask_delta import MaskDelta

__all__ = ["KeptWalk", "Walk"]


class Walk:
    """What a walk found."""

    __slots__ = ("base", "fingerprint", "is_local", "mask", "uncertain")

    def __init__(
        self,
        mask: Mask,
        base: Mask,
        fingerprint: int,
        uncertain: NDArray[np.int32],
        is_local: bool = False,
    ) -> None:
        self.mask: Final = mask
        """Tokens all of whose bytes may follow; uncertain tokens may be set or not. Valid until the
        thread's next walk, which overwrites it."""
        self.base: Final = base
        """A mask that it hardly differs from, and that never changes."""
        self.fingerprint: Final = fingerprint
        """A number that equal masks mostly share, and different ones hardly ever do."""
        self.uncertain: Final = uncertain
        """Sites whose tokens have to be tried on the exact state, as ``walk_sites`` takes them.

        For stacks that are not truncated they are nodes whose own tokens and those below are
        uncertain.
        """
        self.is_local: Final = is_local
        """Whether it is the same in all stacks; for a row laid over another, whether the other's
        walk stays as it is."""

    def for_one_stack(self) -> Walk:
        """Return the walk, not marked as the same in all stacks.

        ``StateMasks`` would otherwise remember it for every stack. The mask is the same memory.
        """
        return Walk(self.mask, self.base, self.fingerprint, self.uncertain)

    def joined_to(self, begun: Walk) -> Walk:
        """Return the walk of this part and of ``begun``, to whose mask this walk added its tokens.

        Both belong to the walk of one state, below different nodes. ``begun.mask`` is the same
        memory and has been overwritten, so it is not read; everything else of ``begun`` counts.
        """
        return Walk(
            self.mask,
            begun.base,
            begun.fingerprint ^ self.fingerprint,
            np.concatenate([begun.uncertain, self.uncertain]),
            begun.is_local and self.is_local,
        )


class KeptWalk:
    """A walk whose mask is kept: unlike that of a ``Walk``, it lasts."""

    __slots__ = ("delta", "held", "uncertain")

    def __init__(self, held: HeldMask, delta: MaskDelta, uncertain: NDArray[np.int32]) -> None:
        self.held: Final = held
        self.delta: Final = delta
        """The mask, which the store may remove from its holder."""
        self.uncertain: Final = uncertain
