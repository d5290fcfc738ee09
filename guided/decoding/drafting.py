"""What makes guesses: one object for each sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from guided.decoding.draft_tree import DraftTree
from guided.spec import Forcing, TokenId

if TYPE_CHECKING:
    from guided.decoding.tree_growth import TreeGrowth
    from guided.decoding.verify import Acceptance

__all__ = ["Drafter", "NoDrafter", "OpenDrafter", "no_drafter"]


class Drafter(Protocol):
    """Guesses behind the trunks of one sequence, and hears what became of them."""

    def draft(self, tokens: Sequence[TokenId], growth: TreeGrowth) -> None:
        """Add guesses to a growth, from ``growth.tip`` on; ``tokens`` are all so far."""
        ...

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """Take note of how the tree drafted last was verified."""
        ...


OpenDrafter: TypeAlias = Callable[[Forcing], Drafter]
"""Makes the drafter of a sequence that forces like this."""


class NoDrafter:
    """Guesses nothing, which is plain decoding with forced runs."""

    def draft(self, tokens: Sequence[TokenId], growth: TreeGrowth) -> None:
        """Leave the trunk alone."""

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """There is nothing to learn."""


def no_drafter(forcing: Forcing) -> Drafter:  # noqa: ARG001 - whatever is forced
    """The drafter that guesses nothing."""
    return NoDrafter()
