"""Growing guesses behind the trunk of a draft tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.decoding.draft_tree import DraftTree
from guided.errors import LimitExceededError
from guided.spec import Forcing, TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["Drafter", "TreeGrowth", "no_guesses"]


class TreeGrowth:
    """A draft tree in the making: legal guesses, each with the run that it forces.

    A reference that forces runs never chooses inside one, so the run has to be part of the tree
    for the tree to walk the same way.
    """

    def __init__(
        self, trunk: DraftTree, forcing: Forcing, *, room: int, end_ids: frozenset[TokenId]
    ) -> None:
        self._tokens = list(trunk.tokens)
        self._parents = list(trunk.parents)
        self._certain = list(trunk.certain)
        self._matchers = list(trunk.matchers)
        self._forcing = forcing
        self._end_ids = end_ids
        self._limit = len(trunk) + room

    @property
    def room(self) -> int:
        """Nodes that may still be added."""
        return self._limit - len(self._tokens)

    @property
    def tip(self) -> int:
        """The node added last."""
        return len(self._tokens) - 1

    def matcher(self, node: int) -> Matcher:
        """The position behind a node at which something may be guessed."""
        matcher = self._matchers[node]
        assert matcher is not None, f"what follows node {node} is decided already"
        return matcher

    def guess(self, node: int, token: TokenId) -> int | None:
        """Guess ``token`` behind ``node`` and return the node to go on from.

        ``None`` when the token is not allowed there, ends the answer, is guessed there already,
        there is no room for it and its run, or the constraint is at a limit.
        """
        matcher = self.matcher(node)
        if token in self._end_ids or self._is_there(node, token):
            return None
        try:
            if not _is_allowed(matcher.mask(), token):
                return None
            after = matcher.advance(token)
            run = after.forced_run(self._forcing)
        except LimitExceededError:
            return None  # it is for the choice at this node to close the answer
        if 1 + len(run) > self.room:
            return None
        self._add(node, token, after, certain=False)
        for forced in run:
            after = after.advance(forced)
            self._add(self.tip, forced, after, certain=True)
        return self.tip

    def tree(self) -> DraftTree:
        """The tree as grown so far."""
        return DraftTree(
            tokens=tuple(self._tokens),
            parents=tuple(self._parents),
            certain=tuple(self._certain),
            matchers=tuple(self._matchers),
        )

    def _add(self, parent: int, token: TokenId, matcher: Matcher, *, certain: bool) -> None:
        self._tokens.append(token)
        self._parents.append(parent)
        self._certain.append(certain)
        self._matchers.append(matcher)

    def _is_there(self, node: int, token: TokenId) -> bool:
        pairs = zip(self._parents, self._tokens, strict=True)
        return any(parent == node and other == token for parent, other in pairs)


Drafter: TypeAlias = Callable[[Sequence[TokenId], TreeGrowth], None]
"""Guesses behind a trunk: gets the sequence's tokens so far and adds to the growth.

It starts from ``growth.tip``.
"""


def no_guesses(tokens: Sequence[TokenId], growth: TreeGrowth) -> None:
    """The drafter that guesses nothing, which is plain decoding with forced runs."""


def _is_allowed(mask: NDArray[np.int32], token: TokenId) -> bool:
    return bool((int(mask[token // 32]) >> (token % 32)) & 1)
