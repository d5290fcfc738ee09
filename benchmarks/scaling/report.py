"""The outcome of a load, with the same figures for a simulation and a cluster."""

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
"""Columns of ``Report.row``."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer; times are in seconds since the beginning."""

    came: float
    first: float
    """When its first token came."""
    ended: float


@dataclass(frozen=True, slots=True)
class Hits:
    """What all engines together found in their caches."""

    prompt_tokens: int
    reused_tokens: int
    asked: int
    """Requests with a constraint."""
    compiled: int
    """Those of them whose constraint had to be compiled."""

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
    """All answers of a load, and the cache hits for them."""

    answered: Sequence[Answered]
    hits: Hits

    @property
    def rate(self) -> float:
        """Answers per second, from the first request to the last answer."""
        began = min(each.came for each in self.answered)
        return len(self.answered) / (max(each.ended for each in self.answered) - began)

    def first_token(self, percent: float) -> float:
        """Return the seconds to the first token at this percentile."""
        return float(np.percentile([each.first - each.came for each in self.answered], percent))

    def latency(self, percent: float) -> float:
        """Return the seconds to the last token at this percentile."""
        return float(np.percentile([each.ended - each.came for each in self.answered], percent))

    def row(self) -> str:
        """Return the figures as cells of a Markdown table (``COLUMNS``)."""
        times = (self.first_token(50), self.first_token(99), self.latency(50), self.latency(99))
        shares = (self.hits.prefix, self.hits.constraint)
        cells = (
            f"{self.rate:.1f}",
            *(f"{1000 * each:.0f}" for each in times),
            *(f"{each:.0%}" for each in shares),
        )
        return " | ".join(cells)


def heading(*names: str) -> str:
    """Return the head of a table in which these columns precede those of a report."""
    cells = (*names, *COLUMNS)
    return f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}"
