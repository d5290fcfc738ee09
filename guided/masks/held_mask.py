"""Where a finished mask is held; a module of its own because it stays interpreted."""

from __future__ import annotations

from guided.masks.mask_delta import MaskDelta

__all__ = ["HeldMask"]


# Compiled classes cannot be referred to weakly, which is how the store lets holders go.
class HeldMask:
    """A place for a mask, which the store takes away again when it needs the room.

    Any thread may find ``delta`` gone the next moment, so it is read once and then used.
    """

    __slots__ = ("__weakref__", "_lone", "delta", "fingerprint", "used")

    def __init__(self, delta: MaskDelta, fingerprint: int) -> None:
        self.delta: MaskDelta | None = delta
        """The mask, ``None`` once the store has emptied this."""
        self.fingerprint = fingerprint
        self.used = True
        """Whether it was asked for since the store last looked."""
        self._lone: int | None = -1
        """The answer of ``lone``, -1 until it was asked."""

    def lone(self, delta: MaskDelta) -> int | None:
        """The token that alone is allowed, ``None`` where there are more or none.

        ``delta`` is the mask that was held here, which may be gone by now. The answer is kept.

        Without a lock: two threads that ask at once find the same. ``None`` is an answer, so it
        cannot stand for one that was not asked for.
        """
        if self._lone == -1:
            self._lone = delta.lone_token()
        return self._lone
