"""How often guesses of each kind were right, of late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

__all__ = ["AcceptanceRates"]

Kind = TypeVar("Kind", bound=Hashable)

_PRIOR_WEIGHT: Final = 4.0
"""How many guesses an assumption counts for."""
_KEPT: Final = 0.97
"""What is left of a guess's weight after each step, so half of it after about 23."""


class AcceptanceRates(Generic[Kind]):
    """Exponentially weighted rates that start from assumptions, and slowly go back to them.

    A kind that was given up because it did not pay is thus tried again later.
    """

    def __init__(self, assumed: Mapping[Kind, float]) -> None:
        self.judged: defaultdict[Kind, float] = defaultdict(float)
        """How many guesses of each kind there were in all, in shares."""
        self.accepted: defaultdict[Kind, int] = defaultdict(int)
        """How many of them were right."""
        self._assumed = assumed
        self._hits: defaultdict[Kind, float] = defaultdict(float)
        self._trials: defaultdict[Kind, float] = defaultdict(float)

    def rate(self, kind: Kind) -> float:
        """The chance that a guess of this kind is right where the one before it was."""
        hits = self._assumed[kind] * _PRIOR_WEIGHT + self._hits[kind]
        return min(1.0, hits / (_PRIOR_WEIGHT + self._trials[kind]))

    def add(self, kind: Kind, share: float, *, is_hit: bool) -> None:
        """Note a guess that the model judged; ``share`` is how much of a guess it was."""
        self.judged[kind] += share
        self.accepted[kind] += is_hit
        self._trials[kind] += share
        self._hits[kind] += is_hit

    def pass_step(self) -> None:
        """Let what was noted so far count a little less."""
        for kind in self._trials:
            self._trials[kind] *= _KEPT
            self._hits[kind] *= _KEPT
