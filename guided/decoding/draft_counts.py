"""What became of the guesses made for one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guided.decoding.draft_tree import DraftTree

__all__ = ["DraftCounts"]


@dataclass(slots=True)
class DraftCounts:
    """Counters over the trees of one sequence; what is forced behind a guess is not counted."""

    tokens: int = 0
    accepted: int = 0
    calls: int = 0
    corrected: int = 0
    """Calls that ended where every guess was wrong."""

    def add(self, tree: DraftTree, path: Sequence[int], *, is_followed: bool) -> None:
        """Count one verified tree, of which ``path`` was taken; ``is_followed`` by a choice."""
        guessed = [node for node, sure in enumerate(tree.certain) if not sure]
        if not guessed:
            return
        self.calls += 1
        self.tokens += len(guessed)
        self.accepted += sum(not tree.certain[node] for node in path)
        tried = any(tree.parents[node] == path[-1] for node in guessed)
        self.corrected += tried and is_followed
