"""Where a finished mask is held."""

from __future__ import annotations

from guided.tokens.mask import Mask, lone_token

__all__ = ["HeldMask"]


class HeldMask:
    """A place for a mask, which the store takes away again when it needs the room."""

    __slots__ = ("__weakref__", "_lone", "fingerprint", "mask", "used")

    def __init__(self, mask: Mask, fingerprint: int) -> None:
        self.mask: Mask | None = mask
        self.fingerprint = fingerprint
        self.used = True
        """Whether it was asked for since the store last looked."""
        self._lone: int | None = -1

    def lone(self, mask: Mask) -> int | None:
        """The token that alone is allowed, ``None`` where there are more or none."""
        if self._lone == -1:
            self._lone = lone_token(mask)
        return self._lone
