"""Rows and cells of the tables that are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

__all__ = ["SPREAD", "heading", "number", "percent", "row", "spread"]

_PERCENTILES: Final = (50, 75, 90, 99, 99.9)
SPREAD: Final = (*(f"p{each:g}" for each in _PERCENTILES), "avg", "max", "n")
"""Columns of ``spread``."""


def row(label: str, cells: Iterable[object]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join([label, *map(str, cells)])} |"


def heading(label: str, columns: Sequence[str]) -> str:
    """Return the head of a table of numbers."""
    return f"{row(label, columns)}\n{row('---', ['---:'] * len(columns))}"


def number(value: float) -> str:
    """``1234.5`` -> 1,234; ``12.34`` -> 12.3."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def percent(part: float, whole: float) -> str:
    """Return a share in percent, or a dash of nothing."""
    return f"{100 * part / whole:.1f}" if whole else "-"


def spread(values: Sequence[float]) -> list[str]:
    """Return percentiles, mean, maximum and count as cells (``SPREAD``)."""
    if not values:
        return ["-"] * (len(SPREAD) - 1) + ["0"]
    array = np.asarray(values, dtype=float)
    found = (*np.percentile(array, _PERCENTILES), array.mean(), array.max())
    return [*(number(float(each)) for each in found), str(len(values))]
