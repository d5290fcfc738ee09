"""A draft tree: what one model call computes for one sequence.

Its trunk is certain: prompt tokens, the token chosen last, a forced run. After the trunk follow
drafted tokens, with several continuations at a node. Plain decoding is a trunk alone::

    trunk (certain)            drafted
    ──────────────────         ────────────────────────────
    "name"  →  :  →  "   ┬→  A  →  lice    (drafted, drafted)
                         └→  B  →  ob

*Scouts* may ride along: tokens that a drafter wants computed for the logits after them. They are
not part of the draft: the verifier does not see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from guided.decoding.rejection import Proposal
from guided.spec import TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["DraftTree"]


_NO_DRAWS: Final[Mapping[int, tuple[Proposal, ...]]] = MappingProxyType({})
_NO_SCOUTS: Final[Mapping[int, bool]] = MappingProxyType({})


class DraftTree:
    """Nodes in an order that puts every parent before its children; never changed.

    One is made for every text of every step, and most are a trunk of one token.
    """

    __slots__ = (
        "certain",
        "draws",
        "matchers",
        "parents",
        "scouts",
        "sources",
        "tokens",
        "trunk_length",
    )

    def __init__(
        self,
        tokens: tuple[TokenId, ...],
        parents: tuple[int | None, ...],
        certain: tuple[bool, ...],
        matchers: tuple[Matcher | None, ...],
        sources: tuple[str, ...],
        draws: Mapping[int, tuple[Proposal, ...]] = _NO_DRAWS,
        scouts: Mapping[int, bool] = _NO_SCOUTS,
    ) -> None:
        self.tokens: Final = tokens
        self.parents: Final = parents
        """Index of each node's parent; ``None`` for a root, which follows the committed tokens.

        A draft has one root, the first node. The candidate tokens of contrastive search are
        separate roots.
        """
        self.certain: Final = certain
        """Whether the node follows its parent whatever the model says."""
        self.matchers: Final = matchers
        """The matcher after a node; ``None`` where the next token is decided already."""
        self.sources: Final = sources
        """The name of the drafter that proposed a node, or for a node in a forced run, the node
        that the run follows; empty in the trunk."""
        self.draws: Final = draws
        """For nodes after which tokens were drawn, all proposals there, in order, those that got no
        node too: rejection sampling has to judge every draw, as what was drawn decides which of
        them become nodes."""
        self.scouts: Final = scouts
        """The scouts among the nodes, each with whether the logits after it are needed."""
        self.trunk_length: Final = _count_trunk(parents, certain)
        """How many nodes at the start are certain, in a row."""

    @classmethod
    def chain(cls, tokens: Sequence[TokenId], matcher: Matcher | None) -> DraftTree:
        """Make a trunk of certain tokens; ``matcher`` is the position after the last of them.

        ``None`` as matcher means that more certain tokens wait for the next call.
        """
        count = len(tokens)
        return cls(
            tokens=tuple(tokens),
            parents=(None, *range(count - 1)),
            certain=(True,) * count,
            matchers=(None,) * (count - 1) + (matcher,),
            sources=("",) * count,
        )

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_trunk(self) -> bool:
        """Whether nothing follows the trunk, neither drafts nor scouts."""
        return self.trunk_length == len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether every node follows the one before it."""
        return self.is_trunk or all(
            parent == node - 1 for node, parent in enumerate(self.parents[1:], start=1)
        )

    @property
    def nodes_needing_logits(self) -> tuple[int, ...]:
        """The nodes whose logits are needed: those with a choice after them, and scouts that want
        theirs. After a node with a certain child nothing is chosen."""
        if self.is_trunk:
            matcher = self.matchers[self.trunk_length - 1]
            return () if matcher is None or matcher.is_complete else (self.trunk_length - 1,)
        pairs = zip(self.parents, self.certain, strict=True)
        certain_parents = {parent for parent, is_certain in pairs if is_certain}
        return tuple(
            node
            for node, matcher in enumerate(self.matchers)
            if self.scouts.get(node, False)
            or (matcher is not None and not matcher.is_complete and node not in certain_parents)
        )

    @property
    def drafted(self) -> tuple[int, ...]:
        """The nodes that a drafter proposed, without the runs that they force."""
        return tuple(
            node
            for node, is_certain in enumerate(self.certain)
            if not is_certain and node not in self.scouts
        )

    def depths(self) -> tuple[int, ...]:
        """How many tokens come before each node."""
        if self.is_trunk:
            return tuple(range(self.trunk_length))
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent is None else depths[parent] + 1)
        return tuple(depths)

    def children(self) -> tuple[tuple[int, ...], ...]:
        """The nodes that follow each node, without scouts."""
        found: list[list[int]] = [[] for _ in self.tokens]
        for child, parent in enumerate(self.parents):
            if parent is not None and child not in self.scouts:
                found[parent].append(child)
        return tuple(map(tuple, found))

    def certain_run(self, node: int, children: Sequence[Sequence[int]]) -> list[int]:
        """Return the run of certain nodes after a node; ``children`` has those of all nodes."""
        run: list[int] = []
        following = children[node]
        while len(following) == 1 and self.certain[following[0]]:
            run.append(following[0])
            following = children[following[0]]
        return run

    def proposals(self, node: int, children: Sequence[int]) -> tuple[Proposal, ...]:
        """Return what was proposed after a node with these children, in order."""
        drawn = self.draws.get(node)
        if drawn is not None:
            return drawn
        return tuple([Proposal(self.tokens[child], None) for child in children])

    def ancestors(self) -> NDArray[np.bool_]:
        """Which nodes a node sees, itself included: ``[nodes, nodes]``, a row for each node."""
        sees: NDArray[np.bool_] = np.eye(len(self), dtype=np.bool_)
        # Parents come before their children, so the row of a parent is complete when copied.
        for node, parent in enumerate(self.parents):
            if parent is not None:
                sees[node] |= sees[parent]
        return sees

    def check(self) -> None:
        """Raise unless the nodes form a draft: one root, a trunk, and no child twice."""
        count = len(self.tokens)
        assert count > 0, "a draft tree without nodes"
        assert all(
            len(column) == count
            for column in (self.parents, self.certain, self.matchers, self.sources)
        ), "tokens, parents, certain, matchers and sources differ in length"
        assert self.parents[0] is None, "the first node is not the root"
        assert self.certain[0], "the root is not certain"
        trunk = self.trunk_length
        siblings: set[tuple[int, TokenId]] = set()
        certain_parents = {
            parent for parent, sure in zip(self.parents, self.certain, strict=True) if sure
        }
        for node in range(1, count):
            parent = self.parents[node]
            assert parent is not None, f"node {node} is a second root"
            assert 0 <= parent < node, f"node {node} precedes its parent"
            is_scout = node in self.scouts
            assert is_scout or parent not in self.scouts, f"node {node} is drafted after a scout"
            if is_scout:
                assert parent == trunk - 1 or parent in self.scouts, f"scout {node} follows a draft"
                assert self.matchers[node] is None, f"scout {node} has a matcher"
                continue
            assert (parent, self.tokens[node]) not in siblings, f"node {node} is there twice"
            siblings.add((parent, self.tokens[node]))
            assert self.certain[node] or parent not in certain_parents, (
                f"node {node} is drafted where another one is certain"
            )
            assert node < trunk or self.matchers[node] is not None, (
                f"node {node} is drafted and has no matcher"
            )
        for node, proposals in self.draws.items():
            proposed = {proposal.token for proposal in proposals}
            children = {self.tokens[n] for n in range(count) if self.parents[n] == node}
            assert children <= proposed, f"a child of node {node} is not among its proposals"
        for parent in certain_parents - {None}:
            assert sum(p == parent for p in self.parents) == 1, (
                f"node {parent} has two certain children"
            )


def _count_trunk(parents: Sequence[int | None], certain: Sequence[bool]) -> int:
    """Return how many nodes at the start are certain, in a row."""
    count = 0
    # A certain node further on is in the run of a drafted token, not in the trunk.
    for parent, is_certain in zip(parents, certain, strict=True):
        if not is_certain or (count and parent != count - 1):
            break
        count += 1
    return count
