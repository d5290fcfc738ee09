"""Walking a draft tree along what the model would have said: which tokens stay, what comes next.

Every choice on the way is the choice that one-token decoding would make at that position, with the
same noise. A drafted token stays when it equals the choice, so the law of the answer does not
depend on what was drafted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from guided.decoding.choice import Choice, Chooser, Closing
from guided.decoding.draft_tree import DraftTree
from guided.decoding.logprobs import ChoiceLogprobs
from guided.decoding.penalties import History
from guided.errors import LimitExceededError

if TYPE_CHECKING:
    from guided.constraint import Matcher

__all__ = ["Acceptance", "DraftCounts", "verify"]


class Acceptance(NamedTuple):
    """The path through a draft tree that the model confirms."""

    path: tuple[int, ...]
    """Nodes from the root on; their rows stay in the cache."""
    choice: Choice | Closing | None
    """What comes after the path; ``None`` when that was decided before, or nothing may come."""
    narrowed: bool
    """The budget took at least one choice on the way away."""
    logprobs: tuple[ChoiceLogprobs, ...] = ()
    """Of the drafted tokens that stay, in order, where the request asked for them."""


def verify(
    tree: DraftTree,
    logits: Mapping[int, NDArray[np.float32]],
    chooser: Chooser,
    position: int,
    history: History,
) -> Acceptance:
    """Walk the tree from its root.

    ``logits`` has a row for every node in ``tree.deciding``; ``position`` counts the answer's
    tokens up to the end of the trunk, and ``history`` holds them, where the sampling reads it.
    """
    trunk = tree.trunk
    # The trunk is certain, so the walk begins at its end.
    path = list(range(trunk))
    children = tree.children()
    reads_history = chooser.sampling.reads_history
    logprobs: list[ChoiceLogprobs] = []
    narrowed = False
    last: Choice | Closing | None = None
    while True:
        node = path[-1]
        matcher = tree.matchers[node]
        run = _certain_run(tree, children, node)
        if run:
            after = tree.matchers[run[-1]]
            assert after is not None, f"node {run[-1]} has no matcher"
            # One-token decoding would not take a run after which the answer cannot end in its
            # budget. It closes there instead, and so does the answer (``AnswerState``).
            if not _fits(chooser, after, position + len(run)):
                break
            path += run
            position += len(run)
            continue
        # More of the prompt is to be read, or the answer is over: nothing is to be chosen here.
        if matcher is None or matcher.is_complete or chooser.remaining(position) == 0:
            break
        # Penalties read all tokens before a position, those of the path included.
        before = history
        if reads_history:
            before = history.after([tree.tokens[passed] for passed in path[trunk:]])
        choice = chooser.choose(logits[node], matcher, position, before)
        if isinstance(choice, Closing):
            last = choice
            break
        narrowed = narrowed or choice.narrowed
        # A drafted token stays when it equals the choice; else the choice ends the path.
        # Siblings are different tokens, so at most one of them is the choice.
        child = next((c for c in children[node] if tree.tokens[c] == choice.token), None)
        if child is None:
            last = choice
            break
        path.append(child)
        position += 1
        if choice.logprobs is not None:
            logprobs.append(choice.logprobs)
    return Acceptance(tuple(path), last, narrowed, tuple(logprobs))


def _fits(chooser: Chooser, matcher: Matcher, position: int) -> bool:
    """Whether the answer can continue from here; not where a constraint is at a limit."""
    try:
        return chooser.fits(matcher, position)
    except LimitExceededError:
        return False


def _certain_run(tree: DraftTree, children: tuple[tuple[int, ...], ...], node: int) -> list[int]:
    """The certain nodes after a node, one after the other."""
    run: list[int] = []
    following = children[node]
    while len(following) == 1 and tree.certain[following[0]]:
        run.append(following[0])
        following = children[following[0]]
    return run


@dataclass(slots=True)
class DraftCounts:
    """Counters over the trees of one sequence; runs that drafted tokens force are not counted."""

    tokens: int = 0
    accepted: int = 0
    calls: int = 0
    corrected: int = 0
    """Calls that ended where every drafted token was wrong."""

    def add(self, tree: DraftTree, path: Sequence[int], *, is_followed: bool) -> None:
        """Count one verified tree, of which ``path`` was taken; ``is_followed`` by a choice."""
        drafted = tree.drafted
        # Calls without drafts would lower the mean accepted length.
        if not drafted:
            return
        self.calls += 1
        self.tokens += len(drafted)
        self.accepted += sum(not tree.certain[node] for node in path)
        # Drafts after the path are wrong if something else was chosen there.
        tried = any(tree.parents[node] == path[-1] for node in drafted)
        self.corrected += tried and is_followed
