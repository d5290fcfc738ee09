"""Tokens by number."""

from __future__ import annotations

from typing import NewType

__all__ = ["TokenId"]

TokenId = NewType("TokenId", int)
"""Number of a token in a vocabulary, which is also its column in the logits."""
