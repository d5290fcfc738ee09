"""What compiled code knows about each stack: a row of int32 per stack, with these columns."""

from __future__ import annotations

from typing import Final

__all__ = [
    "HARMLESS",
    "KNOWLEDGE",
    "KNOWN",
    "NAMES_TAKEN",
    "NONE",
    "NUM_TEXTS",
    "TEXT_DECIDES",
    "UNKNOWN",
    "WIDTH",
]

KNOWLEDGE: Final = 0
NUM_TEXTS: Final = 1
NAMES_TAKEN: Final = 2
TEXT_DECIDES: Final = 3
"""Columns: one of the values below; ``StackTable.num_texts``; ``StackTable.max_names_taken``; and
1 if a value that fits may still be refused for a text that is remembered, else 0."""
WIDTH: Final = 4
"""How many columns there are."""

NONE: Final = 0
KNOWN: Final = 1
UNKNOWN: Final = 2
HARMLESS: Final = 3
"""What a stack knows about the free keys that its object already has. They are HARMLESS if no
single token can begin and close one of them, which is decided where the vocabulary is known."""
