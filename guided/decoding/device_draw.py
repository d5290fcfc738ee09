"""A token to be drawn on the device that has the logits."""

from __future__ import annotations

from dataclasses import dataclass

from guided.masks.mask import Mask

__all__ = ["DeviceDraw"]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceDraw:
    """Draws the token that ``choose_token`` would, from a mask and without filters."""

    mask: Mask
    temperature: float
    """At 0 the likeliest token is taken."""
    stream: int
    """The value that the noise of each token is hashed from: ``noise_stream`` of its position."""
