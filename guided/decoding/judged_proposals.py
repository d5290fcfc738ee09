"""The proposals of one drafter in the latest tree, and how often their kinds were right."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from guided.decoding.draft_budget import AcceptanceRates
from guided.decoding.drafter import VerifiedStep
from guided.spec import TokenId

__all__ = ["JudgedProposals"]

Kind = TypeVar("Kind", bound=Hashable)


class JudgedProposals(Generic[Kind]):
    """Records proposals, and judges each once: by the step that it was made for.

    A drafter may be left out of the next tree, whose nodes have the same numbers.
    """

    def __init__(self, rates: AcceptanceRates[Kind]) -> None:
        self.rates: Final = rates
        """How often proposals of each kind were right."""
        self._proposed: dict[tuple[int, TokenId], tuple[Kind, float]] = {}

    def clear(self) -> None:
        """Begin a new tree."""
        self._proposed.clear()

    def record(self, node: int, token: TokenId, kind: Kind, weight: float = 1.0) -> None:
        """Record a token proposed after a node; ``weight`` is how much of a token it counts for."""
        self._proposed[node, token] = (kind, weight)

    def learn(self, verified: VerifiedStep) -> bool:
        """Judge and forget what was recorded; return whether any of it was right.

        A tree that ends with its trunk holds none of it: the draft was given up for lack of room.
        """
        proposed, self._proposed = self._proposed, {}
        tree = verified.tree
        if tree.trunk_length == len(tree) and not tree.draws:
            return False
        judged, chosen = verified.judged_nodes, verified.chosen_edges
        was_right = False
        for (node, token), (kind, weight) in proposed.items():
            if node in judged:
                is_hit = (node, token) in chosen
                was_right = was_right or is_hit
                self.rates.add(kind, weight, is_hit=is_hit)
        return was_right
