"""How trees of several sequences grow together: the likeliest places first, a few each round.

A *place* is a node of a tree after which more may be drafted. Each round takes the likeliest places
of every tree, gets the heads' logits after all of them at once, and drafts there; the drafted nodes
are places of the next round::

    round 1    root                                   the heads run once a round,
    round 2    root ─┬─ A (0.6)                       for all sequences of the step
                     └─ B (0.2)
    round 3          ├─ A ─┬─ C (0.4)
                     │     └─ D (0.1)
                     └─ B ──── E (0.1)

That is the dynamic tree of EAGLE-2 (Li et al., 2024, section 4.1), with measured rates
(``Expansion``) as its confidence.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from guided.decoding.drafter import DraftBuilder
from guided.decoding.expansion import Expansion
from guided.errors import LimitExceededError
from guided.spec import TokenId

__all__ = ["GrowingTree", "Logits", "Place", "grow"]

Logits: TypeAlias = NDArray[np.float32]
"""``[vocabulary]``."""
Kept = TypeVar("Kept")
"""What heads keep of a place."""


class Place(Generic[Kept]):
    """A node after which tokens may be drafted."""

    __slots__ = ("before", "chance", "depth", "kept", "node", "tokens", "tree")

    def __init__(
        self,
        tree: GrowingTree[Kept],
        node: int,
        chance: float,
        *,
        before: Place[Kept] | None,
        tokens: Sequence[TokenId],
    ) -> None:
        self.tree = tree
        self.node: Final = node
        self.chance: Final = chance
        """How likely the answer gets here."""
        self.before: Final = before
        """The place from which this one was drafted; ``None`` at the root."""
        self.tokens: Final = tokens
        """The tokens from there to here: a drafted one, and the run that it forces."""
        self.depth: Final[int] = 0 if before is None else before.depth + len(tokens)
        """Tokens from the root to here."""
        self.kept: Kept | None = None
        """What the heads know here, once they have computed it."""


class GrowingTree(Generic[Kept]):
    """The tree of one sequence."""

    def __init__(
        self,
        builder: DraftBuilder,
        expansion_at: Callable[[int], Expansion],
        width_at: Callable[[int], int],
        levels: int,
    ) -> None:
        """Both functions take the depth of a place: how, and how widely, it is drafted there.

        At most ``levels`` tokens are drafted, one after the other.
        """
        self._builder = builder
        self._expansion_at = expansion_at
        self._width_at = width_at
        self._levels = levels
        self.root: Final[Place[Kept]] = Place(self, builder.root, 1.0, before=None, tokens=())
        # By falling chance, then by age, so that the same logits give the same tree.
        self._heap = [(-1.0, 0, self.root)]
        self._reached = {builder.root}

    def take(self, most: int) -> list[Place[Kept]]:
        """Return up to ``most`` places after which a token could pay, the likeliest first.

        Each is returned only once.
        """
        found: list[Place[Kept]] = []
        while self._heap and len(found) < most:
            _, _, place = heapq.heappop(self._heap)
            can_grow = self._builder.tokens_left(place.node) > 0 and self._width_at(place.depth) > 0
            pays = can_grow and self._builder.pays(
                1, place.chance, self._max_following(place.depth)
            )
            if pays and self._is_open(place):
                found.append(place)
        return found

    def expand(self, place: Place[Kept], logits: Logits, covered: NDArray[np.int32] | None) -> None:
        """Draft after a place; ``covered`` is a packed mask of the tokens that logits cover.

        ``None`` is for logits that cover the whole vocabulary.
        """
        width = self._width_at(place.depth)
        if covered is not None:
            try:
                mask = self._builder.matcher(place.node).mask()
            except LimitExceededError:
                return  # the choice at this node closes the answer
            width = min(width, _count(mask & covered))
        if width < 1:
            return
        expansion = self._expansion_at(place.depth)
        found = expansion.expand(
            self._builder, place.node, logits, place.chance, width, self._max_following(place.depth)
        )
        for continuation, chance in found:
            if continuation not in self._reached:
                self._reached.add(continuation)
                tokens = self._builder.path(place.node, continuation)
                after = Place(self, continuation, chance, before=place, tokens=tokens)
                heapq.heappush(self._heap, (-chance, len(self._reached), after))

    def _max_following(self, depth: int) -> int:
        """Return how many tokens may come after one that is drafted at a place of this depth."""
        return max(0, self._levels - depth - 1)

    def _is_open(self, place: Place[Kept]) -> bool:
        """Return whether the constraint lets a token follow a place."""
        return not self._builder.matcher(place.node).is_complete


def _count(mask: NDArray[np.int32]) -> int:
    """Count the tokens of a packed mask."""
    # For a negative number ``bitwise_count`` would count the bits of its absolute value.
    return int(np.bitwise_count(mask.view(np.uint32)).sum())


def grow(
    trees: Sequence[GrowingTree[Kept]],
    logits_at: Callable[[Sequence[Place[Kept]]], Sequence[Logits | None]],
    *,
    most_places: int,
    rounds: int,
    covered: NDArray[np.int32] | None = None,
) -> None:
    """Grow trees for some rounds, in each of them from up to ``most_places`` places of every tree.

    ``logits_at`` is called once a round; where it returns ``None`` nothing is drafted. ``covered``
    is as for ``GrowingTree.expand``.
    """
    for _ in range(rounds):
        places = [place for tree in trees for place in tree.take(most_places)]
        if not places:
            return
        for place, logits in zip(places, logits_at(places), strict=True):
            if logits is not None:
                place.tree.expand(place, logits, covered)
