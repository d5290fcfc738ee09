"""What one more level of draft trees costs a draft model, and what it is expected to bring.

Each level is a call of the draft model for all sequences that go on. It pays for a sequence where

    (chance of each node to be expanded, added up) · (how often such a level was right) · worth
        > time of a call / sequences

``DraftBudget.repays`` knows what a token is worth. A level that was given up is assumed to be right
more and more often, as all rates go back to what is assumed, and so it is tried again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from guided.decoding.draft_budget import AcceptanceRates, DraftBudget
from guided.decoding.draft_policy import ProposalTimes
from guided.decoding.drafter import Verified
from guided.decoding.judged_proposals import JudgedProposals
from guided.spec import TokenId

__all__ = ["LevelCosts", "Levels"]

_ASSUMED: Final = 0.7
"""How often one of the tokens drafted after a right node is right."""


class LevelCosts:
    """What one draft model knows of levels, of all sequences together."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        """``clock`` tells nanoseconds."""
        self.rates: Final = AcceptanceRates[int](defaultdict(lambda: _ASSUMED))
        """How often one of the tokens drafted after a right node was right, by level."""
        self._clock = clock
        self._times = ProposalTimes()

    def seconds(self, sequences: int) -> float:
        """One sequence's share of a call for so many; 0 where none was timed."""
        return self._times.seconds(sequences) / sequences

    @contextmanager
    def timed(self, sequences: int) -> Iterator[None]:
        """Note how long a call for so many sequences takes."""
        began = self._clock()
        yield
        self._times.add(sequences, (self._clock() - began) / 1e9)


class Levels:
    """The levels of one sequence's trees."""

    def __init__(self, costs: LevelCosts, *, is_charged: bool) -> None:
        """Who is not charged, as its request names its drafters, computes every level."""
        self._costs = costs
        self._is_charged = is_charged
        self._proposed = JudgedProposals[int](costs.rates)

    def begin(self) -> None:
        """Begin a new tree."""
        self._proposed.clear()

    def note(self, level: int, node: int, tokens: Sequence[TokenId]) -> None:
        """Note what a level drafted after a node."""
        for token in tokens:
            # At most one of them is right, so together they are one trial.
            self._proposed.note(node, token, level, 1.0 / len(tokens))

    def pays(self, level: int, chance: float, budget: DraftBudget, sequences: int) -> bool:
        """Whether to compute a level for so many sequences; it begins with this ``chance``."""
        if not self._is_charged:
            return True
        rate = self._costs.rates.rate(level)
        return budget.repays(chance * rate, self._costs.seconds(sequences))

    def learn(self, verified: Verified) -> None:
        """Note which levels of the latest tree were right."""
        tree = verified.tree
        if tree.trunk < len(tree) or tree.draws:
            self._costs.rates.pass_step()
        self._proposed.learn(verified)
