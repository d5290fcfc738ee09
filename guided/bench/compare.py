"""Running a workload in two ways, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from guided.bench.target import Measured, Target, Way
from guided.bench.workload import Workload
from guided.spec import Forcing, GenerationRequest
from guided.stats import EngineStats

__all__ = ["Comparison", "Run", "compare"]

_SLICES = 4
"""Parts of the workload in which the ways take turns, at most; each can fill the batch."""


@dataclass(frozen=True, slots=True)
class Run:
    """A part of the workload, answered in one way."""

    wall: float
    """Seconds for all of it."""
    measured: tuple[Measured, ...]
    stats: EngineStats
    """What the engine counted meanwhile."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A workload, answered in one or both ways."""

    model: str
    concurrency: int
    runs: Mapping[Way, tuple[Run, ...]]


def compare(
    target: Target,
    workload: Workload,
    *,
    concurrency: int,
    rounds: int = 1,
    with_plain: bool = True,
    tell: Callable[[Way, int, int], None] | None = None,
) -> Comparison:
    """Answer a workload ``rounds`` times, in slices, both ways taking turns in going first.

    So neither way profits from what the other left in caches, nor from a quiet machine. One
    request of each way warms up first and is not counted. ``tell`` is called before each slice
    with its way, and how many slices are done of how many.
    """
    # Slices alternate which way goes first, so that none always meets a warmer cache.
    ways = (Way.GUIDED, Way.PLAIN) if with_plain else (Way.GUIDED,)
    first = dict([next(iter(workload.items()))])
    for way in ways:
        target.answer(_in_way(first, way), 1)
    slices = [part for _ in range(rounds) for part in _slices(workload, concurrency)]
    turns = [
        (way, part)
        for number, part in enumerate(slices)
        for way in (ways if number % 2 == 0 else ways[::-1])
    ]
    runs: dict[Way, list[Run]] = {way: [] for way in ways}
    for number, (way, part) in enumerate(turns):
        if tell is not None:
            tell(way, number, len(turns))
        runs[way].append(_run(target, _in_way(part, way), concurrency))
    return Comparison(
        target.model_name, concurrency, {way: tuple(done) for way, done in runs.items()}
    )


def _run(target: Target, part: Workload, concurrency: int) -> Run:
    before = target.stats()
    began = time.perf_counter()
    measured = target.answer(part, concurrency)
    wall = time.perf_counter() - began
    return Run(wall, tuple(measured), target.stats().since(before))


def _slices(workload: Workload, concurrency: int) -> Iterator[Workload]:
    items = list(workload.items())
    size = max(concurrency, -(-len(items) // _SLICES))
    for begin in range(0, len(items), size):
        yield dict(items[begin : begin + size])


def _in_way(part: Workload, way: Way) -> Workload:
    """Without forced runs an engine does not draft either."""
    if way is Way.GUIDED:
        return part
    plain: dict[str, GenerationRequest] = {
        name: replace(request, forcing=Forcing.OFF) for name, request in part.items()
    }
    return plain
