"""How large one recogniser may grow."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RecognizerLimits"]


@dataclass(frozen=True, slots=True)
class RecognizerLimits:
    """Bounds on the memory of one recogniser."""

    max_cells: int = 16_000_000
    """Cells of the transition table, four bytes each."""
    max_stacks: int = 200_000
    """Nests of open containers, some 300 bytes each."""
