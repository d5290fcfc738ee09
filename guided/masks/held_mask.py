"""Where a finished mask is held; a module of its own because it stays interpreted."""

from __future__ import annotations

from guided.masks.mask_delta import MaskDelta

__all__ = ["HeldMask"]


# Compiled classes cannot be weakly referenced, and the store holds its holders weakly.
class HeldMask:
    """A place for a mask, which the store empties when it needs the room.

    Any thread may find ``delta`` gone the next moment, so read it once and use what was read.
    """

    __slots__ = ("__weakref__", "_only_token", "delta", "used")

    def __init__(self, delta: MaskDelta) -> None:
        self.delta: MaskDelta | None = delta
        """The mask, ``None`` once the store has removed it."""
        self.used = True
        """Whether it was used since the store last looked."""
        self._only_token: int | None = -1
        """The result of ``only_token``, -1 until it is first called."""

    def only_token(self, delta: MaskDelta) -> int | None:
        """Return the only allowed token, or ``None`` if several or none are allowed.

        ``delta`` is the mask that was held here, which may be gone by now. The result is kept.

        Takes no lock: two threads that call it at once find the same. ``None`` is a result, so it
        cannot mark one that is not known yet.
        """
        if self._only_token == -1:
            self._only_token = delta.only_token()
        return self._only_token
