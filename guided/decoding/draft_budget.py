"""How much one sequence may guess in one step: what pays, and what there is room for."""

from __future__ import annotations

from typing import Final

from guided.decoding.cost_curve import CostCurve

__all__ = ["DraftBudget"]

_LEAST_CHANCE: Final = 0.06
"""Even where the model computes a token for nothing, to draft it takes time."""


class DraftBudget:
    """Takes nodes as long as the calls they save are worth more than what they add to this one.

    A step of plain decoding gives each sequence one token. With guesses it gives ``gain``, one and
    what they are expected to add, and takes longer; so a token is worth

        (seconds of a decoding step with these guesses) / gain

    A node pays that is right with some chance if the chance of that is more than it costs here and
    now, where the step may have prompts to compute as well. Sequences draft one by one and do not
    know of each other: each takes it that the others guess as much as itself, so the order among
    them does not matter.
    """

    def __init__(
        self, room: int, costs: CostCurve | None = None, *, certain: int = 1, sequences: int = 1
    ) -> None:
        """``certain`` tokens are computed anyway, for all of the ``sequences`` of the step.

        Without a cost curve everything pays that there is room for.
        """
        self._room = room
        self._costs = costs
        self._certain = certain
        self._sequences = sequences
        self._guessed = 0
        self._gain = 1.0
        self._least_for_one = self._least(1)

    @property
    def room(self) -> int:
        """Nodes that may still be added."""
        return self._room

    def pays(self, nodes: int, chance: float) -> bool:
        """Whether to add so many nodes, all of which are right with the same ``chance``."""
        if nodes > self._room:
            return False
        return chance > (self._least_for_one if nodes == 1 else self._least(nodes))

    def spend(self, nodes: int, chance: float) -> None:
        """Note that they were added."""
        self._room -= nodes
        self._guessed += nodes
        self._gain += chance
        self._least_for_one = self._least(1)

    def _least(self, nodes: int) -> float:
        """The chance above which so many nodes pay."""
        if self._costs is None:
            return -1.0
        seconds, each = self._costs.seconds, self._sequences
        before = self._certain + self._guessed * each
        added = seconds(before + nodes * each) - seconds(before)
        return max(_LEAST_CHANCE, self._gain * added / seconds((1 + self._guessed) * each))
