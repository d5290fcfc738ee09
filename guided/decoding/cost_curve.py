"""What a model call costs by the tokens it computes, as measured."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

__all__ = ["CostCurve"]


_FEW: Final = 512


@dataclass(frozen=True)
class CostCurve:
    """Seconds of a model call; more tokens never take less time.

    Between two measured points it is a line, beyond the last it goes on as at the end.
    """

    points: tuple[tuple[int, float], ...]
    """Tokens and seconds, ascending in both; at least two."""
    _few: tuple[float, ...] = field(init=False, repr=False, compare=False)
    """The seconds of calls that are looked at again and again for each guess."""

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
            while pools and pools[-1][0] > mean:
                before, points = pools.pop()
                mean = (before * points + mean * count) / (points + count)
                count += points
            pools.append((mean, count))
        seconds = [mean for mean, count in pools for _ in range(count)]
        return cls(tuple(zip(sorted(measured), seconds, strict=True)))

    def seconds(self, tokens: int) -> float:
        """Seconds of a call over so many tokens."""
        return self._few[tokens] if tokens < _FEW else self._seconds(tokens)

    def _seconds(self, tokens: int) -> float:
        right = min(max(bisect_left(self.points, (tokens, 0.0)), 1), len(self.points) - 1)
        (fewer, less), (more, longer) = self.points[right - 1 : right + 1]
        share = max(0.0, (tokens - fewer) / (more - fewer))
        seconds = less + share * (longer - less)
        # At its end a line may be rounded above where the next one begins.
        return seconds if share > 1 else min(seconds, longer)
