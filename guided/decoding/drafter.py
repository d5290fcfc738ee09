"""Drafters, which propose the tokens of draft trees, and the builder that keeps proposals legal.

A drafter proposes for all sequences of a step at once, so one that runs a model of its own makes
one call for all of them. It adds to a ``DraftBuilder`` for each sequence. The builder merges
proposals into one tree, prunes those that the matcher does not allow or that do not pay, and adds
the run that each of them forces. See docs/tree-verify.md, "Adding a drafter".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from guided.decoding.choice import Chooser, ChosenToken
from guided.decoding.draft_budget import DraftBudget
from guided.decoding.draft_tree import DraftTree
from guided.decoding.rejection import Proposal
from guided.decoding.token_distribution import TokenDistribution
from guided.errors import LimitExceededError
from guided.spec import Constraint, Forcing, TokenId

if TYPE_CHECKING:
    from guided.constraint import Matcher
    from guided.decoding.verify import Acceptance

__all__ = ["DraftBuilder", "DraftContext", "DraftRequest", "DraftState", "Drafter", "VerifiedStep"]


@dataclass(frozen=True, slots=True, eq=False)
class DraftContext:
    """What a drafter knows of a sequence before it drafts anything for it."""

    forcing: Forcing
    chooser: Chooser
    """How tokens are chosen: sampling, seed, budget and ends."""
    constraint: Constraint
    cache_salt: str
    """Sequences with different salts must not learn of each other."""
    drafters: tuple[str, ...]
    """The drafters that the request names; if it names none, all draft."""
    prompt_length: int
    prompt: tuple[TokenId, ...] = ()
    """The tokens of the prompt that a drafter may look up in what it knows."""
    shared: dict[str, object] = field(default_factory=dict)
    """What drafters keep for all answers to one request, by their names."""
    widths: tuple[int, ...] = ()
    """Expansion widths that the request allows; empty for all that a drafter has."""
    max_drafted: int | None = None
    """The most tokens drafted for the request in one step."""

    def limit_widths(self, widths: tuple[int, ...]) -> tuple[int, ...]:
        """Return a drafter's expansion widths, reduced to those of the request in each level."""
        if not self.widths:
            return widths
        return tuple([min(pair) for pair in zip(widths, self.widths, strict=False)])


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedStep:
    """One step of a sequence: what was computed, and which part of it the model confirmed."""

    tree: DraftTree
    acceptance: Acceptance
    states: NDArray[np.float32]
    """The last hidden state of each node, after the final norm: ``[nodes, size]``; no rows unless
    the drafter wants states."""
    taps: NDArray[np.float32]
    """The inputs of the model's tapped layers at each node, side by side: ``[nodes, taps · size]``,
    with rows as in ``states``; no columns unless the engine's runner taps layers."""
    first: int
    """Position of the tree's first node in the sequence."""
    scout_logits: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    """The logits after scouts that want them, ``[vocabulary]`` each, by node."""
    was_drafted: bool = True
    """Whether a draft was requested for the step, even if nothing was proposed."""

    @property
    def judged_nodes(self) -> frozenset[int]:
        """The nodes after which the model chose something, so that drafts there were tried."""
        path = self.acceptance.path
        # Nothing was chosen after the last node of a path that ends without a choice.
        return frozenset(path if self.acceptance.choice is not None else path[:-1])

    @property
    def chosen_edges(self) -> frozenset[tuple[int | None, TokenId]]:
        """The tokens of the accepted path and the choice after it, each with the node before it."""
        tree, (path, choice) = self.tree, self.acceptance[:2]
        edges = {(tree.parents[node], tree.tokens[node]) for node in path}
        # The last one may have been drawn without becoming a node.
        if isinstance(choice, ChosenToken):
            edges.add((path[-1], choice.token))
        return frozenset(edges)

    @property
    def choice_by_node(self) -> dict[int, TokenId]:
        """The tokens that the model chose, without certain ones, by the node that each follows."""
        tree, path, choice = self.tree, self.acceptance.path, self.acceptance.choice
        choices = {
            before: tree.tokens[node] for before, node in pairwise(path) if not tree.certain[node]
        }
        if isinstance(choice, ChosenToken):
            choices[path[-1]] = choice.token
        return choices


class DraftState(Protocol):
    """What a drafter knows of one sequence; it is kept when the sequence has to start over."""

    def learn(self, verified: VerifiedStep) -> None:
        """Record a step, even one without drafts, such as a part of the prompt."""
        ...

    def end(self, tokens: Sequence[TokenId]) -> None:
        """Release everything: the sequence ended with these tokens, including the prompt."""
        ...


class Drafter(Protocol):
    """Proposes tokens for the sequences of one engine; a step drafts for all of them at once."""

    @property
    def name(self) -> str:
        """Its name in requests and counters, such as ``lookup``."""
        ...

    @property
    def wants_hidden_states(self) -> bool:
        """Whether its draft states learn from the hidden states of all tokens."""
        ...

    @property
    def widths(self) -> tuple[int, ...]:
        """Expansion widths, which a request may reduce; empty if it cannot."""
        ...

    def open(self, context: DraftContext) -> DraftState | None:
        """Begin a sequence; ``None`` drafts nothing for it."""
        ...

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        """Add proposals to the builder of each request.

        If this raises, the engine calls it again with new builders, for one sequence at a time; if
        that raises too, it continues without a draft. So a call must not depend on what a failed
        one left behind.
        """
        ...


class DraftRequest:
    """One sequence of a step that wants proposals."""

    __slots__ = ("builder", "draft_state", "nanoseconds", "skipped", "tokens")

    def __init__(
        self, tokens: Sequence[TokenId], draft_state: DraftState, builder: DraftBuilder
    ) -> None:
        self.tokens = tokens
        """Prompt and answer so far; the trunk of the tree ends with them."""
        self.draft_state = draft_state
        """The result of ``Drafter.open`` for this sequence."""
        self.builder = builder
        """Takes the proposals, from ``builder.root`` on; other drafters may have added to it."""
        self.nanoseconds: dict[str, int] = {}
        """This sequence's share of the time that each drafter took, by name; written by
        ``drafters.union``, as is ``skipped``."""
        self.skipped: list[str] = []
        """The drafters that were skipped because they would not have paid."""


class DraftBuilder:
    """A draft tree in the making: legal drafted tokens, each with the run that it forces.

    Decoding that forces runs never chooses a token inside one. So the run has to be part of the
    tree, or the verifier could not walk the tree as one-token decoding would.
    """

    def __init__(
        self,
        trunk: DraftTree,
        forcing: Forcing,
        *,
        budget: DraftBudget,
        tokens_left: int,
        end_ids: frozenset[TokenId],
    ) -> None:
        """``tokens_left`` is how many tokens the answer may still have; no path is longer."""
        self._tokens = list(trunk.tokens)
        self._parents = list(trunk.parents)
        self._certain = list(trunk.certain)
        self._matchers = list(trunk.matchers)
        self._sources = list(trunk.sources)
        self._scouts: dict[int, bool] = {}
        """The scouts by node, each with whether its logits are wanted."""
        self._root = len(trunk) - 1
        self.source = ""
        """The name of the drafter that adds next; nodes of the tree keep it."""
        self.kind = ""
        """That drafter's name for its next proposals, which a trace shows."""
        self._forcing = forcing
        self._end_ids = end_ids
        # How many tokens may come after each node. Of the trunk only the last node is read.
        self._tokens_left = [tokens_left] * len(trunk)
        self.budget = budget
        """Says what pays, and what there is room for."""
        self.max_nodes: Final = len(trunk) + budget.room
        """The most nodes of the finished tree."""
        # The node from which to continue, by parent and token. Nothing is drafted after the inner
        # nodes of the trunk, so they are not in it.
        self._children: dict[tuple[int, TokenId], int] = {}
        self._draws: dict[int, list[Proposal]] = {}
        """All proposals after a node where a drafter drew, in order, pruned ones too."""

    @property
    def room(self) -> int:
        """The number of nodes that may still be added."""
        return self.budget.room

    def tokens_left(self, node: int) -> int:
        """Return how many tokens the answer may have after a drafted node, or after the root."""
        return self._tokens_left[node]

    @property
    def root(self) -> int:
        """The last node of the trunk, from which drafts begin."""
        return self._root

    @property
    def last_node(self) -> int:
        """The node added last."""
        return len(self._tokens) - 1

    def matcher(self, node: int) -> Matcher:
        """Return the position after a node at which a token may be drafted."""
        matcher = self._matchers[node]
        assert matcher is not None, f"what follows node {node} is decided already"
        return matcher

    def pays(self, nodes: int, chance: float, max_following: int | None = None) -> bool:
        """Whether there is room for this number of nodes, and they are worth it.

        At most ``max_following`` more may come after them, if it is given.
        """
        return self.budget.pays(nodes, chance, max_following)

    def add(
        self, node: int, token: TokenId, chance: float = 1.0, max_following: int | None = None
    ) -> int | None:
        """Draft ``token`` after ``node`` and return the node from which to continue.

        ``chance`` is how likely the answer takes this path. At most ``max_following`` more are
        drafted after the token, if it is given. ``None`` if the token is not allowed there, ends
        the answer, is in the tree already, does not pay together with its run, or if the constraint
        is at a limit.
        """
        continuation = self._try_add(node, token, chance, max_following)
        if continuation is not None and node in self._draws:
            self._draws[node].append(Proposal(token, None))
        return continuation

    def draw(
        self,
        node: int,
        token: TokenId,
        distribution: TokenDistribution,
        chance: float = 1.0,
        max_following: int | None = None,
    ) -> int | None:
        """Draft ``token``, which was drawn from ``distribution``, as ``add`` does.

        The draw is kept even if it does not become a node: leaving out draws because of their
        values would change the distribution of the answer. So every draw has to be passed in here.
        """
        if node not in self._draws:
            self._draws[node] = [Proposal(child, None) for child in self.proposed_tokens(node)]
        self._draws[node].append(Proposal(token, distribution))
        return self._try_add(node, token, chance, max_following)

    def proposed_tokens(self, node: int) -> list[TokenId]:
        """Return the tokens that were proposed after a node so far, in order."""
        drawn = self._draws.get(node)
        if drawn is not None:
            return [proposal.token for proposal in drawn]
        return [token for parent, token in self._children if parent == node]

    def _try_add(
        self, node: int, token: TokenId, chance: float, max_following: int | None
    ) -> int | None:
        """Add a token with its whole run, or nothing; as ``add``, but without keeping the proposal.

        Returns the node from which to continue.
        """
        matcher = self.matcher(node)
        # Cheap checks come first: most proposals are pruned, and advancing a matcher takes longer.
        if token in self._end_ids or (node, token) in self._children:
            return None
        left = self._tokens_left[node] - 1
        after_it = left if max_following is None else min(left, max_following)
        if left < 0 or not self.pays(1, chance, after_it):
            return None
        try:
            if not matcher.allows(token):
                return None
            after = matcher.advance(token)
            run = after.forced_run(self._forcing)
        except LimitExceededError:
            # Drafting stops here: choosing at this node will meet the same limit, and then the
            # answer ends with its shortest completion.
            return None
        # The run is part of the node: with half of it the verifier could not follow the path.
        left -= len(run)
        if left < 0 or not self.pays(1 + len(run), chance, min(left, after_it)):
            return None
        positions = [after]
        try:
            for forced in run:
                positions.append(positions[-1].advance(forced))
        except LimitExceededError:
            # Choosing this token would meet the limit.
            return None
        self.budget.spend(1 + len(run), chance)
        self._append(node, token, after, certain=False)
        for forced, position in zip(run, positions[1:], strict=True):
            self._append(self.last_node, forced, position, certain=True)
        # From here on the token leads to the end of its run.
        self._children[node, token] = self.last_node
        return self.last_node

    def record_logits(
        self,
        node: int,
        logits: NDArray[np.float32],
        chance: float,
        width: int,
    ) -> None:
        """Record the logits by which a drafter will propose tokens; does nothing without a trace.

        ``width`` tokens are proposed after ``node``, which has this ``chance``.
        """

    def add_scout(self, before: int, token: TokenId, *, wants_logits: bool = False) -> int:
        """Add a token to be computed after the root or another scout, and return its node.

        It is computed like a drafted one, but no matcher prunes it, the verifier does not see it,
        and its slot is released. If it ``wants_logits``, ``VerifiedStep.scout_logits`` has those
        after it. The caller has to check the room, and the cost (``pays``).
        """
        assert before == self._root or before in self._scouts, f"node {before} is no scout"
        assert self.budget.room > 0 and self._tokens_left[before] > 0, "no room for a scout"
        self.budget.spend(1, 0.0)
        node = len(self._tokens)
        self._scouts[node] = wants_logits
        self._append_node(before, token, None, certain=False)
        return node

    def find(self, node: int, token: TokenId) -> int | None:
        """Return the node from which to continue if the token is in the tree already."""
        return self._children.get((node, token))

    def path(self, node: int, descendant: int) -> list[TokenId]:
        """Return the tokens after ``node`` up to and with a descendant of it."""
        tokens = []
        at: int | None = descendant
        while at is not None and at != node:
            tokens.append(self._tokens[at])
            at = self._parents[at]
        return tokens[::-1]

    @property
    def has_proposals(self) -> bool:
        """Whether there is more than the trunk: nodes, or draws that became none."""
        return self.last_node != self._root or bool(self._draws)

    def tree(self) -> DraftTree:
        """Return the tree as built so far."""
        return DraftTree(
            tokens=tuple(self._tokens),
            parents=tuple(self._parents),
            certain=tuple(self._certain),
            matchers=tuple(self._matchers),
            sources=tuple(self._sources),
            draws={node: tuple(drawn) for node, drawn in self._draws.items()},
            scouts=dict(self._scouts),
        )

    def _append(self, parent: int, token: TokenId, matcher: Matcher, *, certain: bool) -> None:
        self._append_node(parent, token, matcher, certain=certain)
        self._children[parent, token] = self.last_node

    def _append_node(
        self, parent: int, token: TokenId, matcher: Matcher | None, *, certain: bool
    ) -> None:
        """Add a node without checks; all columns of the tree get their entry here."""
        self._tokens.append(token)
        self._tokens_left.append(self._tokens_left[parent] - 1)
        self._parents.append(parent)
        self._certain.append(certain)
        self._matchers.append(matcher)
        self._sources.append(self.source)
