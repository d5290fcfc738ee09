"""How much one sequence may draft in one step: what pays, and what there is room for.

Three things decide: what a wider model call costs (``CostCurve``, measured), how often drafted
tokens of a kind were right (``AcceptanceRates``, counted), and how much was drafted already
(``DraftBudget``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Generic, TypeVar

__all__ = ["AcceptanceRates", "CostCurve", "DraftBudget"]

_LEAST_CHANCE: Final = 0.06
"""Drafting takes time of its own, even where the model computes a token for nothing."""


class DraftBudget:
    """Takes nodes as long as the calls they save are worth more than what they add to this one.

    A step of plain decoding gives each sequence one token. With drafts it gives ``gain``, one and
    what they are expected to add, and takes longer; so a token is worth

        (seconds of a decoding step with these drafts) / gain

    A node pays that is right with some chance if the chance of that is more than it costs here and
    now, where the step may have prompts to compute as well. Sequences draft one by one and do not
    know of each other: each assumes that the others draft as much as itself, so the order among
    them does not matter.
    """

    def __init__(
        self,
        room: int,
        costs: CostCurve | None = None,
        *,
        certain: int = 1,
        sequences: int = 1,
        slowness: float = 1.0,
    ) -> None:
        """There is room for ``room`` drafted tokens.

        ``certain`` tokens are computed anyway, for all of the ``sequences`` of the step. Calls take
        ``slowness`` times what the curve says. Without a cost curve everything pays that there is
        room for.
        """
        self._room = room
        self._costs = costs
        self._certain = certain
        self._sequences = sequences
        self._slowness = slowness
        self._drafted = 0
        # Plain decoding gives one token as well.
        self._gain = 1.0
        # Most questions are about one node, and the answer changes only when nodes are added.
        self._least_for_one = self._least(1)

    @property
    def room(self) -> int:
        """Nodes that may still be added."""
        return self._room

    @property
    def step_seconds(self) -> float | None:
        """One sequence's share of a decoding step without drafts; ``None`` without a curve."""
        if self._costs is None:
            return None
        return self._slowness * self._costs.seconds(self._sequences) / self._sequences

    def seconds_of(self, nodes: int) -> float:
        """One sequence's share of what its last ``nodes`` add to the call; 0 without a curve."""
        if self._costs is None:
            return 0.0
        seconds, each = self._costs.seconds, self._sequences
        with_them = self._certain + self._drafted * each
        return self._slowness * (seconds(with_them) - seconds(with_them - nodes * each)) / each

    def pays(self, nodes: int, chance: float) -> bool:
        """Whether to add some nodes, all of which are right with the same ``chance``."""
        if nodes > self._room:
            return False
        return chance > (self._least_for_one if nodes == 1 else self._least(nodes))

    def spend(self, nodes: int, chance: float) -> None:
        """Note that they were added."""
        self._room -= nodes
        self._drafted += nodes
        self._gain += chance
        self._least_for_one = self._least(1)

    def _least(self, nodes: int) -> float:
        """The chance above which this number of nodes pays."""
        if self._costs is None:
            return -1.0
        seconds, each = self._costs.seconds, self._sequences
        # The other sequences are assumed to draft as much, so a node costs ``each`` tokens.
        before = self._certain + self._drafted * each
        added = seconds(before + nodes * each) - seconds(before)
        return max(_LEAST_CHANCE, self._gain * added / seconds((1 + self._drafted) * each))


_FEW: Final = 512


@dataclass(frozen=True)
class CostCurve:
    """Seconds of a model call; more tokens never take less time.

    Between two measured points it is a line, beyond the last it continues as at the end.
    """

    points: tuple[tuple[int, float], ...]
    """Tokens and seconds, ascending in both; at least two."""
    _few: tuple[float, ...] = field(init=False, repr=False, compare=False)
    """The seconds of small calls, which are looked up several times for each drafted token."""

    def __post_init__(self) -> None:
        assert len(self.points) >= 2, f"a curve through {len(self.points)} points"
        for (fewer, less), (more, longer) in pairwise(self.points):
            assert fewer < more and 0 < less <= longer, f"{self.points!r} does not rise"
        object.__setattr__(self, "_few", tuple(map(self._seconds, range(_FEW))))

    @classmethod
    def through(cls, measured: Mapping[int, float]) -> CostCurve:
        """The rising curve closest to measured seconds, by least squares.

        Neighbours that fall are pooled to their mean: 1, 3, 2, 4 → 1, 2.5, 2.5, 4.
        """
        pools: list[tuple[float, int]] = []  # mean, points
        for tokens in sorted(measured):
            mean, count = measured[tokens], 1
            # Pool adjacent violators: merge backwards until the means rise again.
            while pools and pools[-1][0] > mean:
                before, points = pools.pop()
                mean = (before * points + mean * count) / (points + count)
                count += points
            pools.append((mean, count))
        seconds = [mean for mean, count in pools for _ in range(count)]
        return cls(tuple(zip(sorted(measured), seconds, strict=True)))

    def seconds(self, tokens: int) -> float:
        """Seconds of a call over this number of tokens."""
        # Wider calls are rare: a long prompt, or a large batch.
        return self._few[tokens] if tokens < _FEW else self._seconds(tokens)

    def _seconds(self, tokens: int) -> float:
        right = min(max(bisect_left(self.points, (tokens, 0.0)), 1), len(self.points) - 1)
        (fewer, less), (more, longer) = self.points[right - 1 : right + 1]
        share = max(0.0, (tokens - fewer) / (more - fewer))
        seconds = less + share * (longer - less)
        # At its end a line may be rounded above where the next one begins.
        return seconds if share > 1 else min(seconds, longer)


Kind = TypeVar("Kind", bound=Hashable)

_PRIOR_WEIGHT: Final = 4.0
"""How many drafted tokens an assumption counts for."""
_KEPT: Final = 0.97
"""What is left of a token's weight after each step, so half of it after about 23."""


class AcceptanceRates(Generic[Kind]):
    """Exponentially weighted rates that start from assumptions, and slowly go back to them.

    A kind that was given up because it did not pay is thus tried again later.
    """

    def __init__(self, assumed: Mapping[Kind, float]) -> None:
        self.judged: defaultdict[Kind, float] = defaultdict(float)
        """How many drafted tokens of each kind were judged in all, in shares."""
        self.accepted: defaultdict[Kind, int] = defaultdict(int)
        """How many of them were right."""
        self._assumed = assumed
        self._hits: defaultdict[Kind, float] = defaultdict(float)
        self._trials: defaultdict[Kind, float] = defaultdict(float)

    def rate(self, kind: Kind) -> float:
        """The chance that a token of this kind is right where the one before it was."""
        # An assumption is worth some imagined trials, which real ones outweigh.
        hits = self._assumed[kind] * _PRIOR_WEIGHT + self._hits[kind]
        return min(1.0, hits / (_PRIOR_WEIGHT + self._trials[kind]))

    def add(self, kind: Kind, share: float, *, is_hit: bool) -> None:
        """Note a token that the model judged; ``share`` is how much of a token it counts for."""
        self.judged[kind] += share
        self.accepted[kind] += is_hit
        self._trials[kind] += share
        self._hits[kind] += is_hit

    def pass_step(self) -> None:
        """Let what was noted so far count a little less."""
        # Trials and hits shrink alike: the rate stays, and the assumption gains weight against it.
        for kind in self._trials:
            self._trials[kind] *= _KEPT
            self._hits[kind] *= _KEPT
