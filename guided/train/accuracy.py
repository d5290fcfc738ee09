"""How often drafters are right on held-out answers, by depth and rank."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from rich.table import Table

__all__ = ["RANKS", "Accuracy"]

RANKS = (1, 3, 8)


@dataclass(slots=True)
class Accuracy:
    """Counts how often the right token was among the likeliest ones, by depth.

    It counts places where the model chose: forced tokens need no drafter. A deeper token counts
    whether or not the tokens before it were right.
    """

    counts: dict[int, int] = field(default_factory=dict)
    hits: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, depth: int, logits: torch.Tensor, right: torch.Tensor) -> None:
        """Add ``[places, vocabulary]`` logits of tokens at some depth, and the right tokens."""
        width = min(max(RANKS), logits.shape[-1])
        best = logits.topk(width, dim=-1).indices == right[:, None]
        self.counts[depth] = self.counts.get(depth, 0) + len(right)
        for rank in RANKS:
            found = int(best[:, :rank].any(-1).sum())
            self.hits[depth, rank] = self.hits.get((depth, rank), 0) + found

    def share(self, depth: int, rank: int) -> float:
        """Return how often the right token was among the ``rank`` likeliest at a depth."""
        return self.hits[depth, rank] / max(1, self.counts[depth])

    def rows(self, name: str) -> list[tuple[str, ...]]:
        """Return a line for each depth, in text: its name, its shares by rank, and its count."""
        return [
            (
                f"{name} {depth}",
                *(f"{self.share(depth, rank):.3f}" for rank in RANKS),
                str(self.counts[depth]),
            )
            for depth in sorted(self.counts)
        ]

    def table(self, name: str) -> Table:
        """Return a table for the terminal."""
        table = Table("on held-out answers", *(f"top-{rank}" for rank in RANKS), "tokens")
        for row in self.rows(name):
            table.add_row(*row)
        return table

    def markdown(self, name: str) -> str:
        """Return a table for a model card."""
        head = ("on held-out answers", *(f"top-{rank}" for rank in RANKS), "tokens")
        lines = [head, ("---",) * len(head), *self.rows(name)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
