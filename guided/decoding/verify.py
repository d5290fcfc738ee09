"""Walks a draft tree along the model's output: which tokens stay, and what comes next.

At each node something is chosen, and a drafted token stays if it equals the choice. The rules of
verification differ in the choice (docs/verification.md):

*coupled*    that of one-token decoding at that position, with the same noise
*rejection*  of the same distribution, and a drafted token where possible (``rejection``)
*typical*    a drafted token wherever one is likely enough (``typical``); of another distribution
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.decoding.choice import Chooser, ChosenToken, FinalCompletion
from guided.decoding.draft_tree import DraftTree
from guided.decoding.logprobs import ChoiceLogprobs
from guided.decoding.penalties import History
from guided.decoding.typical import find_typical_path
from guided.spec import TokenId, Verification

__all__ = ["Acceptance", "verify"]

_NOTHING_DRAWN: Final[Mapping[int, TokenId]] = MappingProxyType({})


class Acceptance(NamedTuple):
    """The path through a draft tree that the model confirms."""

    path: tuple[int, ...]
    """Nodes from the root on; their rows stay in the cache."""
    choice: ChosenToken | FinalCompletion | None
    """The choice after the path; ``None`` if that was decided before, or nothing may come."""
    budget_limited: bool
    """Whether the budget ruled out at least one choice on the way."""
    logprobs: tuple[ChoiceLogprobs, ...] = ()
    """Those of the drafted tokens that stay, in order, if the request wants them."""


def verify(
    tree: DraftTree,
    logits: Mapping[int, NDArray[np.float32]],
    chooser: Chooser,
    position: int,
    history: History,
    drawn: Mapping[int, TokenId] = _NOTHING_DRAWN,
) -> Acceptance:
    """Walk the tree from its root.

    ``logits`` has a row for every node in ``tree.nodes_needing_logits``; ``position`` counts the
    answer's tokens up to the end of the trunk, and ``history`` holds them, if the sampling reads
    it. ``drawn`` has the tokens already drawn after some nodes (``Chooser.device_draw``), whose
    logits are read only if that token cannot be taken.
    """
    trunk = tree.trunk_length
    # The trunk is certain, so the walk begins at its end.
    path = list(range(trunk))
    # Most trees are trunks, whose last node has no children.
    children = () if tree.is_trunk else tree.children()
    rule = chooser.rule
    reads_history = chooser.sampling.reads_history
    logprobs: list[ChoiceLogprobs] = []
    budget_limited = False
    last: ChosenToken | FinalCompletion | None = None
    while True:
        node = path[-1]
        matcher = tree.matchers[node]
        run = tree.certain_run(node, children) if children else ()
        if run:
            after = tree.matchers[run[-1]]
            assert after is not None, f"node {run[-1]} has no matcher"
            # One-token decoding would not take a run after which the answer cannot end in its
            # budget. It closes there instead, and so does the answer (``AnswerState``).
            if not chooser.can_continue(after, position + len(run)):
                break
            path += run
            position += len(run)
            continue
        # The prompt continues in a later step, or the answer is over: nothing is chosen here.
        if matcher is None or matcher.is_complete or chooser.remaining(position) == 0:
            break
        # Penalties read all tokens before a position, including those of the path.
        before = history
        if reads_history:
            before = history.after([tree.tokens[passed] for passed in path[trunk:]])
        if rule is Verification.TYPICAL:
            typical = find_typical_path(tree, logits, chooser, node, position, before)
            if typical.nodes:
                path += typical.nodes
                position += len(typical.nodes)
                logprobs += typical.logprobs
                continue
        drafted = children[node] if children else ()
        proposals = tree.proposals(node, drafted) if rule is Verification.REJECTION else ()
        choice: ChosenToken | FinalCompletion | None = None
        if node in drawn:
            choice = chooser.accept_device_token(drawn[node], matcher, position)
        if choice is None:
            choice = chooser.choose(logits[node], matcher, position, before, proposals)
        if isinstance(choice, FinalCompletion):
            last = choice
            break
        budget_limited = budget_limited or choice.budget_limited
        # A drafted token stays if it equals the choice; else the choice ends the path.
        # Siblings are different tokens, so at most one of them is the choice.
        child = next((c for c in drafted if tree.tokens[c] == choice.token), None)
        if child is None:
            last = choice
            break
        path.append(child)
        position += 1
        if choice.logprobs is not None:
            logprobs.append(choice.logprobs)
    return Acceptance(tuple(path), last, budget_limited, tuple(logprobs))
