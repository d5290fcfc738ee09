"""Typical acceptance: drafted tokens stay if they are likely enough. It is not an exact rule.

A token stays if, in the distribution ``p`` that the choice would be drawn from,

    p(token)  ≥  min(EPSILON, DELTA · exp(-entropy of p))

so almost anything may stay where the model is undecided, and only likely tokens where it is sure.
Of the paths of such tokens the longest is taken, of equally long ones the likeliest (Medusa,
arXiv:2401.10774, section on typical acceptance). If no token stays, one is drawn as usual.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.decoding.choice import Chooser
from guided.decoding.draft_tree import DraftTree
from guided.decoding.logprobs import ChoiceLogprobs
from guided.decoding.penalties import History
from guided.decoding.token_distribution import TokenDistribution
from guided.errors import LimitExceededError

__all__ = ["DELTA", "EPSILON", "TypicalPath", "acceptance_threshold", "find_typical_path"]

EPSILON: Final = 0.09
DELTA: Final = 0.3
"""The published values of Medusa: a bound, and its square root."""


def acceptance_threshold(distribution: TokenDistribution) -> float:
    """Return the least probability with which a drafted token stays."""
    return min(EPSILON, DELTA * math.exp(-distribution.entropy()))


@dataclass(frozen=True, slots=True)
class TypicalPath:
    """Consecutive nodes, each of them certain or likely enough."""

    nodes: tuple[int, ...] = ()
    surprise: float = 0.0
    """The surprise of its drafted tokens together, in nats."""
    logprobs: tuple[ChoiceLogprobs, ...] = ()
    """Those of its drafted tokens, if the request wants them."""
    is_final: bool = False
    """Whether nothing can be chosen after it."""


def find_typical_path(
    tree: DraftTree,
    logits: Mapping[int, NDArray[np.float32]],
    chooser: Chooser,
    node: int,
    position: int,
    history: History,
) -> TypicalPath:
    """Return the path of drafted tokens after ``node`` that stays; no nodes if none does.

    ``position`` counts the answer's tokens up to the node, and ``history`` holds them, if the
    sampling reads it.
    """
    search = _Search(tree, logits, chooser, position, history)
    best = TypicalPath()
    worklist = [best]
    while worklist:
        path = worklist.pop()
        if (-len(path.nodes), path.surprise) < (-len(best.nodes), best.surprise):
            best = path
        if not path.is_final:
            end = path.nodes[-1] if path.nodes else node
            worklist += search.extend_path(path, end)
    return best


class _Search:
    """The search of the paths after one node of a tree."""

    def __init__(
        self,
        tree: DraftTree,
        logits: Mapping[int, NDArray[np.float32]],
        chooser: Chooser,
        position: int,
        history: History,
    ) -> None:
        self._tree = tree
        self._children = tree.children()
        self._logits = logits
        self._chooser = chooser
        self._position = position
        self._history = history

    def extend_path(self, path: TypicalPath, end: int) -> Iterator[TypicalPath]:
        """Return the paths that are a drafted token longer, with the run that it forces."""
        tree, chooser = self._tree, self._chooser
        children, matcher = self._children[end], tree.matchers[end]
        if not children or matcher is None:
            return
        position = self._position + len(path.nodes)
        logits = self._logits[end]
        history = self._history
        if chooser.sampling.reads_history:
            history = history.after([tree.tokens[node] for node in path.nodes])
        try:
            distribution = chooser.distribution(logits, matcher, position, history)
        except LimitExceededError:
            return  # choosing at this node will meet the same limit, and end the answer
        minimum = acceptance_threshold(distribution)
        for child in children:
            probability = distribution.probability(tree.tokens[child])
            after = tree.matchers[child]
            assert after is not None, f"drafted node {child} has no matcher"
            is_likely = probability >= minimum and probability > 0.0
            if not is_likely or not chooser.can_continue(after, position + 1):
                continue
            logprobs = path.logprobs
            choice = chooser.make_choice(logits, matcher.mask(), tree.tokens[child], matcher)
            if choice.logprobs is not None:
                logprobs += (choice.logprobs,)
            run = tree.certain_run(child, self._children)
            surprise = path.surprise - math.log(probability)
            yield self._append_run((*path.nodes, child), run, surprise, logprobs)

    def _append_run(
        self,
        nodes: tuple[int, ...],
        run: list[int],
        surprise: float,
        logprobs: tuple[ChoiceLogprobs, ...],
    ) -> TypicalPath:
        """Return the path of these nodes and a run; without the run if the budget is too short."""
        tree, chooser = self._tree, self._chooser
        whole = (*nodes, *run)
        after = tree.matchers[whole[-1]]
        position = self._position + len(whole)
        assert after is not None, f"node {whole[-1]} has no matcher"
        if not chooser.can_continue(after, position):
            return TypicalPath(nodes, surprise, logprobs, is_final=True)
        is_whole = after.is_complete or chooser.remaining(position) == 0
        return TypicalPath(whole, surprise, logprobs, is_whole)
