"""Targets to measure: an engine in this process, or a server."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from guided.bench.workload import Workload
from guided.errors import GuidedError, ServiceUnavailableError
from guided.spec import (
    FinishReason,
    GenerationRequest,
    GenerationResult,
    JsonSchema,
    Timing,
    Usage,
)
from guided.stats import EngineStats

if TYPE_CHECKING:
    from guided.client import Answer, Client
    from guided.engine import Engine
    from guided.engine.hardware import Hardware

__all__ = ["InProcess", "Measured", "Remote", "Target", "Way"]

_PATIENCE = 10.0
"""Seconds that a server may take to report its statistics."""
_PAUSE = 0.05
_REPORT_SECONDS = 2.0
"""The most time between two reports of an engine."""


class Way(StrEnum):
    """How the requests of a workload are answered."""

    GUIDED = "guided"
    """As the requests say: with forced runs and drafts."""
    PLAIN = "plain"
    """By masks alone: a model call for each token."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One request and its outcome."""

    name: str
    seconds: float
    """Seconds from sending the request to having its answer, as its caller sees it."""
    text: str = ""
    finish_reason: FinishReason | None = None
    """``None`` without an answer."""
    usage: Usage = field(default_factory=Usage)
    timing: Timing = field(default_factory=Timing)
    error: str | None = None
    """Why there is no answer."""


class InProcess:
    """An engine in this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._engine.model_name

    @property
    def drafters(self) -> tuple[str, ...]:
        """The drafters, by the names that requests use."""
        return self._engine.drafters

    @property
    def instruction_set(self) -> str:
        """The instruction set that multiplies its matrices on the CPU; empty on another device."""
        return self._engine.instruction_set

    @property
    def hardware(self) -> Hardware | None:
        """The hardware that the engine computes on, if it is known."""
        return self._engine.hardware

    def stats(self) -> EngineStats:
        """Return the statistics up to now."""
        return self._engine.stats()

    def answer(self, requests: Workload, concurrency: int) -> list[Measured]:
        """Answer all requests, ``concurrency`` at once; returns the answers in order."""
        coming = deque(requests.items())
        began: dict[str, float] = {}
        done: dict[str, Measured] = {}
        # Refill the batch before each step, so that ``concurrency`` requests are always in it.
        while coming or began:
            while coming and len(began) < concurrency:
                name, request = coming.popleft()
                began[name] = time.perf_counter()
                try:
                    self._engine.submit(name, request)
                except GuidedError as error:
                    done[name] = _failed(name, began.pop(name), error)
            for finished in self._engine.step():
                name, outcome = finished.request_id, finished.outcome
                if isinstance(outcome, GuidedError):
                    done[name] = _failed(name, began.pop(name), outcome)
                else:
                    done[name] = _answered(name, began.pop(name), outcome)
        return [done[name] for name in requests]


class Remote:
    """A server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # A server may have answered others before.
        self._ended = client.stats().ended
        self._has_failed = False
        """Whether requests failed since the last report, which the engine may not have seen."""

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._client.model().name

    @property
    def drafters(self) -> tuple[str, ...]:
        """The drafters, by the names that requests use."""
        return self._client.model().drafters

    @property
    def instruction_set(self) -> str:
        """The instruction set that multiplies its matrices on the CPU; empty on another device."""
        return self._client.model().instruction_set

    def stats(self) -> EngineStats:
        """Return the statistics; waits until the server's report includes all requests sent here.

        Requests of others to the same server are counted, too.
        """
        # The engine reports once a second, so the latest report may lack the last answers.
        deadline = time.monotonic() + _PATIENCE
        while (stats := self._client.stats()).ended < self._ended:
            if time.monotonic() > deadline:
                raise ServiceUnavailableError(
                    f"the server has reported {stats.ended} requests of {self._ended} for "
                    f"{_PATIENCE:g} s",
                    hint="see whether its engine was started again",
                )
            time.sleep(_PAUSE)
        if self._has_failed:
            # Those that reached the engine are in its next report.
            time.sleep(_REPORT_SECONDS)
            stats, self._has_failed = self._client.stats(), False
            self._ended = stats.ended
        return stats

    def answer(self, requests: Workload, concurrency: int) -> list[Measured]:
        """Answer all requests, ``concurrency`` at once; returns the answers in order."""
        # Threads of one client, as callers would send their requests.
        with ThreadPoolExecutor(concurrency) as pool:
            done = list(pool.map(self._ask, requests, requests.values()))
        answered = sum(each.error is None for each in done)
        self._ended += answered
        self._has_failed |= answered < len(done)
        return done

    def _generate(self, request: GenerationRequest) -> Answer[Any]:
        ask = partial(
            self._client.generate,
            request.prompt,
            max_tokens=request.max_tokens,
            forcing=request.forcing,
            drafters=request.drafters,
            temperature=request.sampling.temperature,
            seed=request.sampling.seed,
        )
        constraint = request.constraint
        if isinstance(constraint, JsonSchema):
            return ask(schema=constraint.text, json_options=constraint.options)
        return ask(grammar=constraint)

    def _ask(self, name: str, request: GenerationRequest) -> Measured:
        began = time.perf_counter()
        try:
            answer = self._generate(request)
        except GuidedError as error:
            return _failed(name, began, error)
        return _answered(name, began, answer)


Target: TypeAlias = InProcess | Remote
"""Answers requests, and counts what it does."""


def _answered(name: str, began: float, outcome: Answer[Any] | GenerationResult) -> Measured:
    return Measured(
        name,
        time.perf_counter() - began,
        outcome.text,
        outcome.finish_reason,
        outcome.usage,
        outcome.timing,
    )


def _failed(name: str, began: float, error: GuidedError) -> Measured:
    return Measured(name, time.perf_counter() - began, error=str(error))
