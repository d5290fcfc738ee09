"""Runs a workload in several ways, by turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from guided.bench.target import Measured, Target, Way
from guided.bench.workload import Workload
from guided.spec import Forcing, GenerationRequest
from guided.stats import EngineStats

__all__ = ["Change", "Comparison", "Run", "Tell", "compare", "compare_ways"]

Change: TypeAlias = Callable[[GenerationRequest], GenerationRequest]
"""A way of answering a request: changes it to what is sent instead."""
Tell: TypeAlias = Callable[[str, int, int], None]
"""Called before each slice with its way, the number of slices done, and their total."""

_SLICES = 4
"""Most parts of the workload between which the ways alternate; each part can fill the batch."""


@dataclass(frozen=True, slots=True)
class Run:
    """A part of the workload, answered in one way."""

    wall: float
    """Seconds for all requests."""
    measured: tuple[Measured, ...]
    stats: EngineStats
    """The engine's statistics for the run."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A workload, answered in one way or several."""

    model: str
    concurrency: int
    runs: Mapping[str, tuple[Run, ...]]
    """Runs by the name of the way."""


def compare(
    target: Target,
    workload: Workload,
    *,
    concurrency: int,
    rounds: int = 1,
    with_plain: bool = True,
    tell: Tell | None = None,
) -> Comparison:
    """Answer a workload as its requests say, and by masks alone for comparison."""
    ways: dict[str, Change] = {Way.GUIDED: lambda request: request}
    if with_plain:
        # Without forced runs an engine does not draft either.
        ways[Way.PLAIN] = lambda request: replace(request, forcing=Forcing.OFF)
    return compare_ways(target, workload, ways, concurrency=concurrency, rounds=rounds, tell=tell)


def compare_ways(
    target: Target,
    workload: Workload,
    ways: Mapping[str, Change],
    *,
    concurrency: int,
    rounds: int = 1,
    tell: Tell | None = None,
) -> Comparison:
    """Answer a workload ``rounds`` times, in slices, with all ways taking turns in going first.

    So no way benefits from what another left in caches, nor from a quiet machine. One request of
    each way warms up first and does not count.
    """
    first = dict([next(iter(workload.items()))])
    for change in ways.values():
        target.answer(_changed(first, change), 1)
    slices = [part for _ in range(rounds) for part in _slices(workload, concurrency)]
    names = tuple(ways)
    turns = [
        (way, part)
        for number, part in enumerate(slices)
        for way in (*names[number % len(names) :], *names[: number % len(names)])
    ]
    runs: dict[str, list[Run]] = {way: [] for way in ways}
    for number, (way, part) in enumerate(turns):
        if tell is not None:
            tell(way, number, len(turns))
        runs[way].append(_run(target, _changed(part, ways[way]), concurrency))
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


def _changed(part: Workload, change: Change) -> Workload:
    return {name: change(request) for name, request in part.items()}
