"""What compiled code knows of each stack: one row of int32 for each, with these columns."""

from __future__ import annotations

from typing import Final

__all__ = ["HARMLESS", "KNOWLEDGE", "KNOWN", "NONE", "TAKEN", "TEXTS", "UNKNOWN"]

KNOWLEDGE: Final = 0
TEXTS: Final = 1
TAKEN: Final = 2
"""Columns: one of the values below, and see ``StackTable.depth`` and ``StackTable.taken``."""

NONE: Final = 0
KNOWN: Final = 1
UNKNOWN: Final = 2
HARMLESS: Final = 3
"""What a stack knows of the free keys that its object already has. They are harmless where none
of them is one that a token can begin and close, which is for those to say who know the tokens."""
