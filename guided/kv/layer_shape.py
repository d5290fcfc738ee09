"""What one attention layer keeps for a token."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LayerShape"]


@dataclass(frozen=True, slots=True)
class LayerShape:
    """The sizes of one layer's keys and values."""

    heads: int
    key_size: int
    value_size: int

    @property
    def numbers(self) -> int:
        """Numbers kept for a token."""
        return self.heads * (self.key_size + self.value_size)
