"""Decides how much one sequence may draft in one step: what pays, and what there is room for.

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
from math import inf
from typing import Final, Generic, TypeVar

__all__ = ["AcceptanceRates", "CostCurve", "DraftBudget"]

_MIN_CHANCE: Final = 0.06
"""The least chance worth a draft: drafting takes time even where a wider call is free."""
_ROUNDING_MARGIN: Final = 1.0 + 1e-9
"""Tokens have to be worth more than they cost, not just as much and rounded up."""


class DraftBudget:
    """Takes nodes as long as the calls they save are worth more than what they add to this one.

    A step of plain decoding gives each sequence one token. With drafts it gives ``gain`` tokens,
    one plus those that the drafts are expected to add, and takes longer; so a token is worth

        (seconds of a decoding step with these drafts) / gain

    A node pays if its chance of being right is worth more than it costs here and now, where the
    step may have prompts to compute as well. It also pays if it would together with some nodes
    after it: a call of two tokens may take nearly as long as one of eight. Nodes after it are
    assumed to be right as often as it is.

    Sequences draft one by one and do not know of each other: each assumes that the others draft as
    much as itself, so the order among them does not matter.
    """

    def __init__(
        self,
        room: int,
        costs: CostCurve | None = None,
        *,
        certain: int = 1,
        sequences: int = 1,
        undrafted: int = 0,
        slowness: float = 1.0,
    ) -> None:
        """There is room for ``room`` drafted tokens.

        ``certain`` tokens are computed anyway, for all of the ``sequences`` that draft in the step,
        and for ``undrafted`` others that get one token each. Calls take ``slowness`` times what the
        curve says. Without a cost curve, everything pays that there is room for.
        """
        self._room = room
        self._costs = costs
        self._certain = certain
        self._sequences = sequences
        self._undrafted = undrafted
        self._slowness = slowness
        self._drafted = 0
        # Plain decoding gives one token as well.
        self._gain = 1.0

    @property
    def room(self) -> int:
        """The number of nodes that may still be added."""
        return self._room

    @property
    def step_seconds(self) -> float | None:
        """One sequence's share of a decoding step without drafts; ``None`` without a curve."""
        if self._costs is None:
            return None
        tokens = self._sequences + self._undrafted
        return self._slowness * self._costs.seconds(tokens) / tokens

    def added_seconds(self, nodes: int) -> float:
        """Return this sequence's share of the seconds that its last ``nodes`` add to the call.

        0 without a curve.
        """
        if self._costs is None:
            return 0.0
        seconds, each = self._costs.seconds, self._sequences
        with_them = self._certain + self._drafted * each
        return self._slowness * (seconds(with_them) - seconds(with_them - nodes * each)) / each

    def pays(self, nodes: int, chance: float, max_following: int | None = None) -> bool:
        """Whether to add some nodes, all of which are right with the same ``chance``.

        At most ``max_following`` more may come after them; ``None`` where all the room may be used.
        """
        if nodes > self._room:
            return False
        if self._costs is None:
            return True
        seconds, each = self._costs.seconds, self._sequences
        # The other sequences are assumed to draft as much, so a node costs ``each`` tokens.
        before = self._certain + self._drafted * each
        # The value of a second, in tokens for each sequence; the undrafted ones add theirs.
        gain = self._gain + self._undrafted / each
        worth = _ROUNDING_MARGIN * gain / seconds((1 + self._drafted) * each + self._undrafted)
        expected, likely = 0.0, chance
        most = self._room if max_following is None else min(self._room, nodes + max_following)
        for more in range(nodes, most + 1):
            # The chance of further nodes soon becomes too small, so few are considered.
            if likely <= _MIN_CHANCE:
                return False
            expected += likely
            if expected > worth * (seconds(before + more * each) - seconds(before)):
                return True
            likely *= chance
        return False

    def spend(self, nodes: int, chance: float) -> None:
        """Record that nodes were added."""
        self._room -= nodes
        self._drafted += nodes
        self._gain += chance


_TABLE_SIZE: Final = 512


@dataclass(frozen=True)
class CostCurve:
    """The seconds of a model call; more tokens never take less time.

    The curve is straight between measured points, and continues straight beyond the last.
    """

    points: tuple[tuple[int, float], ...]
    """Tokens and seconds, ascending in both; at least two."""
    _table: tuple[float, ...] = field(init=False, repr=False, compare=False)
    """The seconds of small calls, which are looked up several times for each drafted token."""

    def __post_init__(self) -> None:
        assert len(self.points) >= 2, f"a curve through {len(self.points)} points"
        for (fewer, less), (more, longer) in pairwise(self.points):
            assert fewer < more and 0 < less <= longer, f"{self.points!r} does not rise"
        object.__setattr__(self, "_table", tuple(map(self._interpolate, range(_TABLE_SIZE))))

    @classmethod
    def from_measurements(cls, measured: Mapping[int, float]) -> CostCurve:
        """Make a rising curve from measured seconds, which may be too long but never too short.

        No call takes longer than one of more tokens, so each size counts with the least time of it
        and wider ones: 1, 3, 2, 4 → 1, 2, 2, 4.
        """
        points: list[tuple[int, float]] = []
        least = inf
        for tokens in sorted(measured, reverse=True):
            least = min(least, measured[tokens])
            points.append((tokens, least))
        return cls(tuple(points[::-1]))

    def seconds(self, tokens: int) -> float:
        """Return the seconds of a call over this number of tokens."""
        # Wider calls are rare: a long prompt, or a large batch.
        return self._table[tokens] if tokens < _TABLE_SIZE else self._interpolate(tokens)

    def _interpolate(self, tokens: int) -> float:
        right = min(max(bisect_left(self.points, (tokens, 0.0)), 1), len(self.points) - 1)
        (fewer, less), (more, longer) = self.points[right - 1 : right + 1]
        share = max(0.0, (tokens - fewer) / (more - fewer))
        seconds = less + share * (longer - less)
        # Rounding may put the end of a line above the beginning of the next.
        return seconds if share > 1 else min(seconds, longer)


Kind = TypeVar("Kind", bound=Hashable)

_PRIOR_WEIGHT: Final = 4.0
"""How many drafted tokens an assumption counts for."""
_DECAY: Final = 0.97
"""The share of a token's weight that remains after each step: half after about 23."""


class AcceptanceRates(Generic[Kind]):
    """Exponentially weighted rates that start from assumptions, and slowly return to them.

    So a kind that was given up because it did not pay is tried again later.
    """

    def __init__(self, assumed: Mapping[Kind, float]) -> None:
        self.judged: defaultdict[Kind, float] = defaultdict(float)
        """How many drafted tokens of each kind were judged in all, by weight."""
        self.accepted: defaultdict[Kind, int] = defaultdict(int)
        """How many of them were right."""
        self._assumed = assumed
        self._hits: defaultdict[Kind, float] = defaultdict(float)
        self._trials: defaultdict[Kind, float] = defaultdict(float)

    def rate(self, kind: Kind) -> float:
        """Return the chance that a token of this kind is right if the one before it was."""
        # An assumption is worth some imagined trials, which real ones outweigh.
        hits = self._assumed[kind] * _PRIOR_WEIGHT + self._hits[kind]
        return min(1.0, hits / (_PRIOR_WEIGHT + self._trials[kind]))

    def add(self, kind: Kind, weight: float, *, is_hit: bool) -> None:
        """Record a token that the model judged; ``weight`` is how much of a token it counts for."""
        self.judged[kind] += weight
        self.accepted[kind] += is_hit
        self._trials[kind] += weight
        self._hits[kind] += is_hit

    def decay(self) -> None:
        """Make everything recorded so far count a little less."""
        # Trials and hits shrink alike: the rate stays, and the assumption gains weight against it.
        for kind in self._trials:
            self._trials[kind] *= _DECAY
            self._hits[kind] *= _DECAY
