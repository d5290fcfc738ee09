"""What became of a load: the same figures of a simulation and of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = ["COLUMNS", "Answered", "Hits", "Report", "heading"]

COLUMNS: Final = (
    "answers/s",
    "first token p50, ms",
    "p99",
    "all p50",
    "p99",
    "prefixes",
    "constraints",
)
"""Of ``Report.row``."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer; times are seconds from the beginning."""

    came: float
    first: float
    """When its first token was there."""
    ended: float


@dataclass(frozen=True, slots=True)
class Hits:
    """What engines found in their caches, all together."""

    prompt_tokens: int
    reused_tokens: int
    asked: int
    """Requests with a constraint."""
    compiled: int
    """Those of them whose constraint was not there."""

    @property
    def prefix(self) -> float:
        """The share of prompts that was not computed again."""
        return self.reused_tokens / max(1, self.prompt_tokens)

    @property
    def constraint(self) -> float:
        """The share of constraints that were not compiled again."""
        return 1.0 - self.compiled / max(1, self.asked)


@dataclass(frozen=True)
class Report:
    """All answers of a load, and what was found in caches for them."""

    answered: Sequence[Answered]
    hits: Hits

    @property
    def rate(self) -> float:
        """Answers a second, from the first request to the last answer."""
        began = min(each.came for each in self.answered)
        return len(self.answered) / (max(each.ended for each in self.answered) - began)

    def first_token(self, percent: float) -> float:
        """Seconds to the first token that so many percent of requests kept to."""
        return float(np.percentile([each.first - each.came for each in self.answered], percent))

    def latency(self, percent: float) -> float:
        """Seconds to the last token that so many percent of requests kept to."""
        return float(np.percentile([each.ended - each.came for each in self.answered], percent))

    def row(self) -> str:
        """The figures as cells of a table of Markdown (``COLUMNS``)."""
        times = (self.first_token(50), self.first_token(99), self.latency(50), self.latency(99))
        shares = (self.hits.prefix, self.hits.constraint)
        cells = (
            f"{self.rate:.1f}",
            *(f"{1000 * each:.0f}" for each in times),
            *(f"{each:.0%}" for each in shares),
        )
        return " | ".join(cells)


def heading(*names: str) -> str:
    """The head of a table in which these columns come before those of a report."""
    cells = (*names, *COLUMNS)
    return f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}"
