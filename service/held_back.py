"""Finds how much of a growing text must be held back because it may begin a sign."""

from __future__ import annotations

__all__ = ["overlap"]


def overlap(text: str, sign: str) -> int:
    """Return how many characters at the end of the text may begin the sign."""
    for length in range(min(len(text), len(sign) - 1), 0, -1):
        if sign.startswith(text[-length:]):
            return length
    return 0
