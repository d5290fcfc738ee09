"""How long the stream of one request waits while constraints of others are compiled."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from guided.engine import Engine
from guided.errors import GuidedError
from guided.spec import GenerationRequest, GenerationResult, Regex, Structure

__all__ = ["Gaps", "gaps_beside"]

NEIGHBOUR = GenerationRequest("Once upon a time", Regex("[a-z ]+"), max_tokens=2_000)
"""A stream that gets text with each step."""
_FEWEST = 40
"""The least number of gaps to measure, so that there are enough to compare."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Seconds between pieces of the neighbour's text, while something else happens."""

    seconds: tuple[float, ...]
    work: tuple[float, ...]
    """The processor time of the process in the same gaps: their longest duration if nothing else
    ran on the machine, and more if a kernel runs beside the engine."""
    outcome: str
    """The outcome of the other requests."""
    wall: float
    """Seconds until the others had ended."""

    @property
    def rate(self) -> float:
        """Pieces of text a second."""
        return len(self.seconds) / sum(self.seconds)

    @property
    def median(self) -> float:
        return sorted(self.seconds)[len(self.seconds) // 2]

    @property
    def longest(self) -> float:
        return max(self.seconds)


class _Stream:
    """The neighbour's stream, which begins again when it ends."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._numbers = itertools.count()
        self._begin()
        self.marks: list[tuple[float, float]] = []
        """Moments at which text came, by the clock and in processor time."""

    def _begin(self) -> None:
        self.request_id = f"neighbour {next(self._numbers)}"
        self._engine.submit(self.request_id, NEIGHBOUR, stream=True)

    def step(self) -> dict[str, str]:
        """Step once, and note when the neighbour got text; returns the others that ended."""
        ended = {}
        for finished in self._engine.step():
            if finished.request_id == self.request_id:
                self._begin()
            else:
                ended[finished.request_id] = _described(finished.outcome)
        if any(delta.request_id == self.request_id for delta in self._engine.take_deltas()):
            self.marks.append((time.perf_counter(), time.process_time()))
        return ended

    def close(self) -> None:
        self._engine.cancel(self.request_id)


def gaps_beside(
    engine: Engine, constraint: Structure | None, *, copies: int = 1, max_tokens: int = 24
) -> Gaps:
    """The neighbour's gaps until ``copies`` answers with a constraint have ended.

    Without a constraint, its usual gaps.
    """
    stream = _Stream(engine)
    while len(stream.marks) < 3:
        stream.step()
    stream.marks = stream.marks[-1:]
    began = time.perf_counter()
    ended: dict[str, str] = {}
    names = [f"hostile {number}" for number in range(copies if constraint is not None else 0)]
    for name in names:
        request = GenerationRequest("x", constraint, max_tokens=max_tokens)
        try:
            engine.submit(name, request)
        except GuidedError as error:
            ended[name] = _described(error)
    while len(ended) < len(names):
        ended |= stream.step()
    wall = time.perf_counter() - began
    while len(stream.marks) <= _FEWEST:
        stream.step()
    stream.close()
    clock, work = zip(*stream.marks, strict=True)
    return Gaps(_between(clock), _between(work), ended.get("hostile 0", ""), wall)


def _between(marks: Sequence[float]) -> tuple[float, ...]:
    return tuple([after - before for before, after in itertools.pairwise(marks)])


def _described(outcome: GenerationResult | GuidedError) -> str:
    if isinstance(outcome, GenerationResult):
        return outcome.finish_reason.value
    return type(outcome).__name__
