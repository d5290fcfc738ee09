"""Growing guesses behind the trunk of a draft tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.errors import LimitExceededError
from guided.spec import Forcing, TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["TreeGrowth"]


class TreeGrowth:
    """A draft tree in the making: legal guesses, each with the run that it forces.

    A reference that forces runs never chooses inside one, so the run has to be part of the tree
    for the tree to walk the same way.
    """

    def __init__(
        self,
        trunk: DraftTree,
        forcing: Forcing,
        *,
        budget: DraftBudget,
        longest: int,
        end_ids: frozenset[TokenId],
    ) -> None:
        """``longest`` is how many tokens may still come; no guess goes deeper."""
        self._tokens = list(trunk.tokens)
        self._parents = list(trunk.parents)
        self._certain = list(trunk.certain)
        self._matchers = list(trunk.matchers)
        self._forcing = forcing
        self._end_ids = end_ids
        self._left = [longest] * len(trunk)
        """How many tokens may come behind each node; only that of the trunk's last is asked for."""
        self._budget = budget
        self._children: set[tuple[int, TokenId]] = set()
        """What is guessed, and behind which nodes; nothing is behind the inner ones of a trunk."""

    @property
    def room(self) -> int:
        """Nodes that may still be added."""
        return self._budget.room

    @property
    def tip(self) -> int:
        """The node added last."""
        return len(self._tokens) - 1

    def matcher(self, node: int) -> Matcher:
        """The position behind a node at which something may be guessed."""
        matcher = self._matchers[node]
        assert matcher is not None, f"what follows node {node} is decided already"
        return matcher

    def pays(self, nodes: int, chance: float) -> bool:
        """Whether there is room for so many nodes, and they are worth it."""
        return self._budget.pays(nodes, chance)

    def guess(self, node: int, token: TokenId, chance: float = 1.0) -> int | None:
        """Guess ``token`` behind ``node`` and return the node to go on from.

        ``chance`` is how likely the answer takes this way. ``None`` when the token is not allowed
        there, ends the answer, is guessed there already, does not pay together with its run, or
        the constraint is at a limit.
        """
        matcher = self.matcher(node)
        if token in self._end_ids or (node, token) in self._children:
            return None
        if self._left[node] < 1 or not self.pays(1, chance):
            return None
        try:
            if not matcher.allows(token):
                return None
            after = matcher.advance(token)
            run = after.forced_run(self._forcing)
        except LimitExceededError:
            return None  # it is for the choice at this node to close the answer
        if self._left[node] < 1 + len(run) or not self.pays(1 + len(run), chance):
            return None
        self._budget.spend(1 + len(run), chance)
        self._add(node, token, after, certain=False)
        for forced in run:
            after = after.advance(forced)
            self._add(self.tip, forced, after, certain=True)
        return self.tip

    def line(self, node: int, tip: int) -> list[TokenId]:
        """The tokens behind ``node`` up to ``tip``."""
        tokens = []
        at: int | None = tip
        while at is not None and at != node:
            tokens.append(self._tokens[at])
            at = self._parents[at]
        return tokens[::-1]

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
        self._left.append(self._left[parent] - 1)
        self._parents.append(parent)
        self._certain.append(certain)
        self._matchers.append(matcher)
        self._children.add((parent, token))
