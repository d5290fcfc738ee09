"""Where a finished mask is held; a module of its own because it stays interpreted."""

from __future__ import annotations

from guided.masks.mask_delta import MaskDelta

__all__ = ["HeldMask"]


# Compiled classes cannot be weakly referenced, and the store holds its holders weakly.
class HeldMask:
    """A place for a mask, which the store empties when it needs the room.

    Any thread may find ``delta`` gone the next moment, so read it once and use what was read.
    """

    __slots__ = ("__weakref__", "delta", "used")

    def __init__(self, delta: MaskDelta) -> None:
        self.delta: MaskDelta | None = delta
        """The mask, ``None`` once the store has removed it."""
        self.used = True
        """Whether it was used since the store last looked."""
