"""Hundreds of callers of every kind at once, while the engine is killed again and again.

``make soak``, or ``python -m tests.kit.soak [--seconds 600] [--streams 560] [--others 290]
[--warm 150] [--seed N]``. The server runs as users run it, with a tiny model, and a third of the
calls come over HTTP. ``--streams`` callers have a stream open all the time. Every answer is checked
against its own request (``nonces``). At the end everything has to be as after the warm-up, which is
not counted: no blocks held, no tasks, threads or descriptors left, and no more memory.
A fault ends the run with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import typer

from guided.client import AsyncClient, Client, wait_until_serving
from guided.errors import GuidedError
from guided_service.intake import READERS
from tests.kit.callers import Doors, Tally, call_once
from tests.kit.processes import ProcessFacts, facts_of
from tests.kit.tiny_model import save_tiny_model
from tests.service.http_server import HttpServer, serving_http
from tests.service.server_process import ServerProcess

__all__ = [
    "Moment",
    "Outcome",
    "Plan",
    "kill_engine",
    "quiet",
    "report",
    "run_soak",
    "soak_server",
]

SERVER = (sys.executable, "-m", "tests.kit.soak_server")
_CLIENTS = 8
_LONG_SECONDS = 60.0
"""In a run of at least this length memory has reached its final size by the middle."""
_MEMORY_SHARE = 1.05
_ENGINE_SHARE = 1.10
"""The same limit for an engine, which lives until it is killed, and caches what it compiles."""
_LOOK_SECONDS = 0.5
_QUIET_SECONDS = 60.0
"""How long a server may take to become idle."""


@dataclass(frozen=True)
class Plan:
    """The length of a run, its callers, and how often the engine is killed."""

    seconds: float = 600.0
    streams: int = 560
    """Number of callers that open one stream after another."""
    others: int = 290
    """Number of callers that make calls of other kinds."""
    kill_every: float = 60.0
    seed: int = 0
    warm_seconds: float = 150.0
    """Seconds before anything is counted; longer than a server keeps answers for repeats."""

    @property
    def callers(self) -> int:
        return self.streams + self.others

    @property
    def pause(self) -> float:
        """Seconds between two looks at memory that may still fall."""
        return min(7.0, max(2.0, self.seconds / 10))


@dataclass(frozen=True)
class Moment:
    """The server's processes at one moment."""

    name: str
    seconds: float
    server: ProcessFacts
    standby: ProcessFacts
    engine: ProcessFacts
    tasks: int
    """Number of tasks of the server's event loop."""
    requests: int
    """Number of requests that hold a place of the server or wait for one."""


@dataclass
class Outcome:
    """The outcome of a run."""

    plan: Plan
    tally: Tally = field(default_factory=Tally)
    moments: list[Moment] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    """Seconds from each kill until the server took requests again."""
    held_blocks: int = 0
    """Blocks held at the end."""
    open_streams: list[int] = field(default_factory=list)
    """Numbers of open streams, sampled throughout the run."""

    @property
    def faults(self) -> list[str]:
        """The faults of the run."""
        found = list(self.tally.faults)
        first, last = self.moments[0], self.moments[-1]
        if (fewest := min(self.open_streams, default=0)) < self.plan.streams * 9 // 10:
            found.append(f"of {self.plan.streams} streams {fewest} were open at some moment")
        if self.held_blocks:
            found.append(f"{self.held_blocks} blocks are held at the end")
        if self.plan.seconds >= _LONG_SECONDS:
            found += self._grown()
        for what, before, after in (
            ("tasks", first.tasks, last.tasks),
            ("threads of the server", first.server.threads + READERS, last.server.threads),
            ("threads of the engine", first.engine.threads, last.engine.threads),
        ):
            if after > before:
                found.append(f"{what} were {before} and are {after}")
        for name, then, now in (
            ("server", first.server, last.server),
            ("standby", first.standby, last.standby),
            ("engine", first.engine, last.engine),
        ):
            # A server in use makes one more socket at some point and keeps it. What leaks does so
            # with each of hundreds of calls.
            if now.descriptors > then.descriptors + (name == "server"):
                more = ", ".join(now.open_files - then.open_files)
                found.append(
                    f"descriptors of the {name} were {then.descriptors} and are {now.descriptors}: "
                    f"there are more of {more}"
                )
        return found

    def _grown(self) -> list[str]:
        """The memory that was not released: for the server since the middle as well, since it is
        never restarted."""
        first, middle, last = self.moments
        sizes = (
            ("server", first.server, last.server, _MEMORY_SHARE),
            ("server since the middle", middle.server, last.server, _MEMORY_SHARE),
            ("standby", first.standby, last.standby, _MEMORY_SHARE),
            ("engine", first.engine, last.engine, _ENGINE_SHARE),
        )
        return [
            f"the {name} grew from {before.mebibytes:.1f} to {after.mebibytes:.1f} MiB"
            for name, before, after, share in sizes
            if after.mebibytes > share * before.mebibytes
        ]


@contextmanager
def soak_server(folder: Path, streams: int) -> Iterator[HttpServer]:
    """A server of the tiny model, which reports its tasks on request."""
    settings = _settings(folder, streams)
    with serving_http(SERVER, folder / "log", settings, timeout=300) as server:
        yield server


def _settings(folder: Path, streams: int) -> dict[str, str]:
    return {
        "model": str(save_tiny_model(folder / "model")),
        "dtype": "float32",
        "cache": str(folder / "cache"),
        "max_requests_in_flight": f"{max(64, streams)}",
        "restart_backoff_seconds": "0.05",
        "max_streams_per_connection": f"{max(256, 2 * streams)}",
        "stall_seconds": "5",
    }


def run_soak(web: HttpServer, plan: Plan) -> Outcome:
    """Run callers at both interfaces of a server for as long as the plan says."""
    outcome, server = Outcome(plan), web.process
    _warm(web, outcome)
    settled(server, plan.pause)
    outcome.moments.append(_moment("start", server, 0.0))
    asyncio.run(_run(web, outcome))
    _rest(server, outcome)
    return outcome


async def _run(web: HttpServer, outcome: Outcome) -> None:
    plan, server = outcome.plan, web.process
    until = time.monotonic() + plan.seconds

    async def look() -> None:
        # Halfway between two kills, while calls are in progress.
        seconds = (plan.seconds - plan.kill_every) / 2
        await asyncio.sleep(seconds)
        moment = await asyncio.to_thread(_moment, "middle", server, seconds)
        outcome.moments.append(moment)

    async def count() -> None:
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(_LOOK_SECONDS, left))
            if time.monotonic() < until:
                outcome.open_streams.append(outcome.tally.open_streams)

    await asyncio.gather(
        _let_callers_at(web, plan, until, outcome.tally),
        _kill(server, outcome, until),
        look(),
        count(),
    )


async def _let_callers_at(web: HttpServer, plan: Plan, until: float, tally: Tally) -> None:
    """Let all callers make calls, one after another, until a moment."""
    doors = [Doors.of(web) for _ in range(_CLIENTS)]

    async def caller(number: int) -> None:
        rng = random.Random(f"{plan.seed}:{number}")
        while time.monotonic() < until:
            is_stream = number < plan.streams
            await call_once(doors[number % _CLIENTS], rng, tally, is_stream=is_stream)

    await asyncio.gather(*(caller(number) for number in range(plan.callers)))
    for each in doors:
        await each.close()


async def _kill(server: ServerProcess, outcome: Outcome, until: float) -> None:
    """Kill the engine at intervals, and measure how long it takes to come back."""
    while time.monotonic() + outcome.plan.kill_every < until:
        await asyncio.sleep(outcome.plan.kill_every)
        outcome.restarts.append(await asyncio.to_thread(kill_engine, server))


def kill_engine(server: ServerProcess) -> float:
    """Kill the engine; returns the seconds until another one accepts requests."""
    engine, began = server.engine_process_id(), time.monotonic()
    os.kill(engine, signal.SIGKILL)
    while server.engine_process_id() in (engine, server.standby_process_id()):
        assert time.monotonic() - began < 120, "no other engine was started"
        time.sleep(0.02)
    wait_until_serving(server.address, 120.0)
    return time.monotonic() - began


def _warm(web: HttpServer, outcome: Outcome) -> None:
    """Make calls that create everything lasting: the transport's threads, machine code, caches.

    The engine is killed once, as hundreds of calls that fail at once take memory that the server
    keeps.
    """

    async def call() -> None:
        tally, plan = Tally(), outcome.plan
        until = time.monotonic() + plan.warm_seconds

        async def kill() -> None:
            await asyncio.sleep(plan.warm_seconds / 2)
            await asyncio.to_thread(kill_engine, web.process)

        await asyncio.gather(_let_callers_at(web, plan, until, tally), kill())
        outcome.tally.faults += tally.faults

    asyncio.run(call())
    quiet(web.process)


def settled(server: ServerProcess, pause: float = 2.0) -> tuple[float, float]:
    """Memory of server and engine once it falls no further in a pause: idle ones give it back.

    An engine does so after a second without work, a server after five without calls.
    """
    until, last = time.monotonic() + _QUIET_SECONDS / 2, math.inf
    while True:
        engine = facts_of(server.engine_process_id()).mebibytes
        sizes = facts_of(server.process.pid).mebibytes, engine
        if last - sum(sizes) < 1.0 or time.monotonic() > until:
            return sizes
        last = sum(sizes)
        time.sleep(pause)


def quiet(server: ServerProcess) -> int:
    """Wait until no request runs; returns the number of blocks held."""

    async def wait() -> int:
        async with AsyncClient(server.address) as client:
            async with asyncio.timeout(_QUIET_SECONDS):
                while True:
                    # An engine's report of itself is up to two seconds old.
                    await asyncio.sleep(2.5)
                    try:
                        stats = await client.stats()
                    except GuidedError:
                        continue
                    if not stats.running and not stats.waiting:
                        return stats.cache.held

    return asyncio.run(wait())


def _rest(server: ServerProcess, outcome: Outcome) -> None:
    """Note the last moment once the server is idle; its threads may take a little longer."""
    outcome.held_blocks = quiet(server)
    settled(server, outcome.plan.pause)
    deadline = time.monotonic() + _QUIET_SECONDS
    outcome.moments.append(_moment("end", server, outcome.plan.seconds))
    while outcome.faults and time.monotonic() < deadline:
        time.sleep(1)
        outcome.moments[-1] = _moment("end", server, outcome.plan.seconds)


def _moment(name: str, server: ServerProcess, seconds: float) -> Moment:
    while True:
        try:
            standby, engine = server.standby_process_id(), server.engine_process_id()
            return Moment(
                name,
                seconds,
                facts_of(server.process.pid),
                facts_of(standby),
                facts_of(engine),
                _tasks(server),
                _requests(server),
            )
        except (OSError, ValueError, GuidedError):
            time.sleep(0.1)  # the engine has just been killed


def _requests(server: ServerProcess) -> int:
    with Client(server.address) as client:
        stats = client.stats()
    return stats.in_flight + stats.queued


def _tasks(server: ServerProcess) -> int:
    """The number of tasks of the server's event loop, as it reports them."""
    before = server.log.read_text().count("tasks ")
    server.process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 30
    while (said := server.log.read_text()).count("tasks ") == before:
        assert time.monotonic() < deadline, "the server does not tell its tasks"
        time.sleep(0.05)
    return int(said.rpartition("tasks ")[2].split()[0])


def report(outcome: Outcome) -> str:
    """All figures of a run, and its faults."""
    tally = outcome.tally
    lines = [f"{tally.most_open} calls at once, {sum(tally.told.values())} in all:"]
    held = sorted(outcome.open_streams)
    lines += [
        f"streams open: {held[0]} at least, {held[len(held) // 2]} as a rule, {held[-1]} at most"
    ]
    lines += [
        f"  {kind:12} {said:26} {count:7}" for (kind, said), count in sorted(tally.told.items())
    ]
    seconds = ", ".join(f"{each:.1f}" for each in outcome.restarts)
    lines += [f"engine killed {len(outcome.restarts)} times; serving again after s: {seconds}"]
    lines += ["moment  server MiB  thr  fds  tasks requests | standby MiB | engine MiB  thr  fds"]
    lines += [
        f"{m.name:7} {m.server.mebibytes:10.1f} {m.server.threads:4} {m.server.descriptors:4}"
        f" {m.tasks:6} {m.requests:8} | {m.standby.mebibytes:11.1f} | {m.engine.mebibytes:10.1f}"
        f" {m.engine.threads:4} {m.engine.descriptors:4}"
        for m in outcome.moments
    ]
    faults = outcome.faults
    lines += [f"{len(faults)} faults", *faults[:50]]
    return "\n".join(lines)


def main() -> int:
    """Run the soak that the command line describes; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=Plan.seconds)
    parser.add_argument("--streams", type=int, default=Plan.streams)
    parser.add_argument("--others", type=int, default=Plan.others)
    parser.add_argument("--warm", type=float, default=Plan.warm_seconds)
    parser.add_argument("--kill-every", type=float, default=Plan.kill_every)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    given = parser.parse_args()
    plan = Plan(
        given.seconds, given.streams, given.others, given.kill_every, given.seed, given.warm
    )
    typer.echo(f"seed {plan.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="guided-soak-") as folder,
        soak_server(Path(folder), plan.callers) as server,
    ):
        outcome = run_soak(server, plan)
    typer.echo(report(outcome))
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
