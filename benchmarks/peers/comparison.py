"""Two engines side by side, over what both did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.judging import STATUSES, Judged
from benchmarks.peers.mask_report import TIMES, Runs
from benchmarks.peers.tables import heading, number, row

__all__ = ["comparison", "paired"]

_FIGURES: Final[Mapping[str, Callable[[NDArray[np.float64]], Any]]] = {
    "median": np.median,
    "p99": lambda values: np.percentile(values, 99),
    "mean": np.mean,
}


def comparison(runs: Runs) -> Iterator[str]:
    """Yield the statuses and times of two engines over the same schemas; ratios are first/second.

    Times are compared over schemas that both compiled, token by token as far as both came.
    """
    (first, one), (second, other) = runs.items()
    both = [(each, other[name]) for name, each in one.items() if name in other]
    compiled = [pair for pair in both if None not in (pair[0].ttfm_us, pair[1].ttfm_us)]
    yield f"\n{first} and {second}: {len(both)} schemas, {len(compiled)} compiled by both\n"
    crossed = Counter((each.status, its.status) for each, its in both)
    met = [status for status in STATUSES if any(status in pair for pair in crossed)]
    yield heading(f"{first} (down), {second} (across)", met)
    for status in met:
        yield row(status, [crossed[status, its] for its in met])
    yield f"\nus over what both did; ratio = {first} / {second}\n"
    yield heading("", ["n", "figure", first, second, "ratio"])
    yield from _rows("TTFM", [(each.ttfm_us or 0.0, its.ttfm_us or 0.0) for each, its in compiled])
    for title, times in TIMES.items():
        pairs = [pair for judged in compiled for pair in paired(*judged, times)]
        yield from _rows(title, [(mine / 1e3, its / 1e3) for mine, its in pairs])


def paired(
    one: Judged, other: Judged, times: Callable[[Judged], list[list[int]]]
) -> Iterator[tuple[int, int]]:
    """Yield the times of the same tokens, as far as both engines came in each document."""
    for mine, its in zip(times(one), times(other), strict=False):
        yield from zip(mine, its, strict=False)


def _rows(label: str, pairs: Sequence[tuple[float, float]]) -> Iterator[str]:
    if not pairs:
        return
    mine, its = np.array(pairs).T
    for name, figure in _FIGURES.items():
        one, other = float(figure(mine)), float(figure(its))
        ratio = f"{one / other:.3f}" if other else "-"
        yield row(label, [len(pairs), name, number(one), number(other), ratio])
