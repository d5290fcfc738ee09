"""A token to be drawn where the logits are, instead of where the answers are."""

from __future__ import annotations

from dataclasses import dataclass

from guided.masks.mask import Mask

__all__ = ["Draw"]


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Draws the token that ``choose_token`` would, from a mask and without filters."""

    mask: Mask
    temperature: float
    """The likeliest token is taken at 0."""
    stream: int
    """What the noise of each token is hashed from: ``noise_stream`` of its position."""
