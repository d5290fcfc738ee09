"""Simulates many engines in simulated time.

Steps and caches are those of ``work``, choices among engines those of the service; only time is
simulated. A seed determines everything drawn. ``forecast`` prints tables with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import simpy

from benchmarks.scaling.load import Arrival
from benchmarks.scaling.report import Answered, Hits, Report
from benchmarks.scaling.work import Costs, Job, Work
from guided.spec import Timing, Usage
from guided.v1 import generation_pb2 as pb
from guided_service.ray.affinity import Affinity, affinity_of
from guided_service.ray.routing import SLACK, Routing
from guided_service.ray.worth import Worth

__all__ = ["POLICIES", "Choose", "Policy", "simulate"]

Choose = Callable[[Affinity, Mapping[int, float]], int]
"""Chooses the engine of a request, given how many requests each has."""

Policy = str | Callable[[random.Random], Choose]


def simulate(
    arrivals: Iterable[Arrival],
    costs: Costs,
    *,
    engines: int = 1,
    policy: Policy = "affinity",
    ingress: float = 0.0,
    ingresses: int = 1,
    worth: Callable[[], Worth] = Worth,
    seed: int = 0,
) -> Report:
    """Simulate the answers to a load.

    ``ingress`` is the seconds that a request takes of an ingress, one at a time; each request comes
    to one of ``ingresses`` at random. ``policy`` makes the choice of each ingress, or names one of
    ``POLICIES``; ``worth`` makes each ingress's estimate of what constraints are worth.
    """
    clock, draw = simpy.Environment(), random.Random(seed)
    made = [Engine(clock, Work(costs)) for _ in range(engines)]
    choice = POLICIES[policy] if isinstance(policy, str) else policy
    doors = [Ingress(clock, made, choice(draw), worth(), ingress) for _ in range(ingresses)]
    answered: list[Answered] = []

    def all_come() -> Generator[simpy.Event, Any, None]:
        for number, arrival in enumerate(arrivals):
            yield clock.timeout(arrival.at - clock.now)
            clock.process(draw.choice(doors).answer(str(number), arrival, answered))

    clock.process(all_come())
    clock.run()
    works = [each.work for each in made]
    return Report(
        answered,
        Hits(
            sum(each.prompt_tokens for each in works),
            sum(each.reused_tokens for each in works),
            sum(each.asked for each in works),
            sum(each.compiled for each in works),
        ),
    )


class Ingress:
    """Passes requests to engines, one at a time; knows only what it has sent them."""

    def __init__(
        self,
        clock: simpy.Environment,
        engines: Sequence[Engine],
        choose: Choose,
        worth: Worth,
        seconds: float,
    ) -> None:
        self._clock = clock
        self._engines = engines
        self._choose = choose
        self._worth = worth
        self._seconds = seconds
        self._door = simpy.Resource(clock)
        self._loads = dict.fromkeys(range(len(engines)), 0.0)

    def answer(
        self, name: str, arrival: Arrival, answered: list[Answered]
    ) -> Generator[simpy.Event, Any, None]:
        """Simulate the answer to one request."""
        with self._door.request() as door:
            yield door
            yield self._clock.timeout(self._seconds)
        affinity = self._worth.weighed(_affinity_of(arrival))
        chosen = self._choose(affinity, self._loads)
        self._loads[chosen] += 1
        first, ended = self._engines[chosen].ask(name, arrival)
        yield first
        begun = self._clock.now
        job: Job = yield ended
        self._loads[chosen] -= 1
        self._worth.learn(affinity, *_told_of(job))
        answered.append(Answered(arrival.at, begun, self._clock.now))


@dataclass
class Engine:
    """One engine: takes step after step while there is work."""

    clock: simpy.Environment
    work: Work
    _awaited: dict[str, tuple[Job, simpy.Event, simpy.Event]] = field(default_factory=dict)
    _is_running: bool = False

    def ask(self, name: str, arrival: Arrival) -> tuple[simpy.Event, simpy.Event]:
        """Take a request; returns the events of its first token, and of its last with the job."""
        job = Job(name, arrival.prompt, arrival.constraint, arrival.tokens)
        self.work.submit(job)
        events = (self.clock.event(), self.clock.event())
        self._awaited[name] = (job, *events)
        if not self._is_running:
            self._is_running = True
            self.clock.process(self._run())
        return events

    def _run(self) -> Generator[simpy.Event, Any, None]:
        while self.work:
            done = self.work.step()
            yield self.clock.timeout(done.seconds)
            for name in done.first:
                self._awaited[name][1].succeed()
            for name in done.finished:
                job, _, ended = self._awaited.pop(name)
                ended.succeed(job)
        self._is_running = False


def _affinity_of(arrival: Arrival) -> Affinity:
    message = pb.GenerateRequest(text=arrival.prompt)
    if arrival.constraint:
        message.constraint.regex.pattern = arrival.constraint
    return affinity_of(message)


def _told_of(job: Job) -> tuple[Usage, Timing]:
    """Return what an engine reports of an answer."""
    usage = Usage(prompt_tokens=job.prompt_tokens, reused_tokens=job.reused_tokens)
    return usage, Timing(compiling_seconds=job.compiling, first_token_seconds=job.reading)


def _by_affinity(draw: random.Random) -> Choose:
    """Choose like the service: an engine that has seen it, unless that one is too busy."""
    routing: Routing[int] = Routing(SLACK, str)

    def choose(affinity: Affinity, loads: Mapping[int, float]) -> int:
        best, _ = routing.choices(affinity, loads)
        chosen = _idler_of_two(draw, best, loads)
        routing.sent(affinity, chosen)
        return chosen

    return choose


def _by_two_choices(draw: random.Random) -> Choose:
    """Choose like Ray's default: the idler of two that are drawn."""
    return lambda _, loads: _idler_of_two(draw, list(loads), loads)


def _in_turn(_: random.Random) -> Choose:
    """Choose one engine after the other."""
    taken = 0

    def choose(_: Affinity, loads: Mapping[int, float]) -> int:
        nonlocal taken
        taken += 1
        return list(loads)[taken % len(loads)]

    return choose


def _idler_of_two(draw: random.Random, engines: list[int], loads: Mapping[int, float]) -> int:
    return min(draw.sample(engines, min(2, len(engines))), key=loads.__getitem__)


POLICIES: Final[Mapping[str, Callable[[random.Random], Choose]]] = {
    "affinity": _by_affinity,
    "two choices": _by_two_choices,
    "in turn": _in_turn,
}
