"""Hundreds of callers of every kind at once, while the engine is killed again and again.

``make soak``, or ``python -m tests.kit.soak [--seconds 600] [--streams 520] [--seed N]``. The
server is as users have it, of a tiny model. Every answer is held against its own request
(``nonces``). At the end everything has to be as it was: no blocks held, no tasks, threads or
descriptors left, and memory is printed. What should not be ends the run with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
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

from guided.client import AsyncClient, wait_until_serving
from guided.errors import GuidedError
from guided_service.intake import READERS
from tests.kit.callers import Tally, call_once
from tests.kit.processes import ProcessFacts, facts_of
from tests.kit.tiny_model import save_tiny_model
from tests.service.server_process import ServerProcess, serving

__all__ = ["Moment", "Outcome", "Plan", "kill_engine", "quiet", "report", "run_soak", "soak_server"]

SERVER = (sys.executable, "-m", "tests.kit.soak_server")
_CLIENTS = 8
_LONG_SECONDS = 60.0
"""From here on a run is long enough for memory to be where it stays in its middle."""
_MEMORY_SHARE = 1.05
_QUIET_SECONDS = 60.0
"""How long a server may take to come to rest."""


@dataclass(frozen=True)
class Plan:
    """How long, how many, and how often the engine is killed."""

    seconds: float = 600.0
    streams: int = 520
    kill_every: float = 60.0
    seed: int = 0


@dataclass(frozen=True)
class Moment:
    """The server's processes at one moment."""

    name: str
    seconds: float
    server: ProcessFacts
    standby: ProcessFacts
    engine: ProcessFacts
    tasks: int
    """Of the server's event loop."""


@dataclass
class Outcome:
    """What came of a run."""

    plan: Plan
    tally: Tally = field(default_factory=Tally)
    moments: list[Moment] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    """Seconds from each kill until the server took requests again."""
    held_blocks: int = 0
    """At the end."""

    @property
    def faults(self) -> list[str]:
        """What should not have been."""
        found = list(self.tally.faults)
        first, last = self.moments[0], self.moments[-1]
        if self.held_blocks:
            found.append(f"{self.held_blocks} blocks are held at the end")
        if self.plan.seconds >= _LONG_SECONDS:
            middle = self.moments[1].server.mebibytes
            if last.server.mebibytes > _MEMORY_SHARE * middle:
                found.append(
                    f"the server grew from {middle:.1f} to {last.server.mebibytes:.1f} MiB"
                )
        for what, before, after in (
            ("tasks", first.tasks, last.tasks),
            ("descriptors of the server", first.server.descriptors, last.server.descriptors),
            ("descriptors of the standby", first.standby.descriptors, last.standby.descriptors),
            ("descriptors of the engine", first.engine.descriptors, last.engine.descriptors),
            ("threads of the server", first.server.threads + READERS, last.server.threads),
            ("threads of the engine", first.engine.threads, last.engine.threads),
        ):
            if after > before:
                found.append(f"{what} were {before} and are {after}")
        return found


@contextmanager
def soak_server(folder: Path, streams: int) -> Iterator[ServerProcess]:
    """A server of the tiny model, which says its tasks when asked."""
    settings = {
        "model": str(save_tiny_model(folder / "model")),
        "dtype": "float32",
        "cache": str(folder / "cache"),
        "max_requests_in_flight": f"{max(64, streams)}",
        "restart_backoff_seconds": "0.05",
        "max_streams_per_connection": f"{max(256, 2 * streams)}",
        "stall_seconds": "5",
    }
    with serving(SERVER, folder / "log", settings, timeout=300) as server:
        yield server


def run_soak(server: ServerProcess, plan: Plan) -> Outcome:
    """Let callers at a server for as long as the plan says."""
    outcome = Outcome(plan)
    _warm(server)
    outcome.moments.append(_moment("start", server, 0.0))
    asyncio.run(_run(server, outcome))
    _rest(server, outcome)
    return outcome


async def _run(server: ServerProcess, outcome: Outcome) -> None:
    plan, began = outcome.plan, time.monotonic()
    until = began + plan.seconds
    clients = [AsyncClient(server.address) for _ in range(_CLIENTS)]

    async def caller(number: int) -> None:
        rng = random.Random(f"{plan.seed}:{number}")
        while time.monotonic() < until:
            await call_once(server.address, clients[number % _CLIENTS], rng, outcome.tally)

    async def look() -> None:
        await asyncio.sleep(plan.seconds / 2)
        moment = await asyncio.to_thread(_moment, "middle", server, plan.seconds / 2)
        outcome.moments.append(moment)

    killing = asyncio.create_task(_kill(server, outcome, until))
    looking = asyncio.create_task(look())
    await asyncio.gather(*(caller(number) for number in range(plan.streams)))
    await asyncio.gather(killing, looking)
    for client in clients:
        await client.close()


async def _kill(server: ServerProcess, outcome: Outcome, until: float) -> None:
    """Kill the engine every so often, and see how long it takes to come back."""
    while time.monotonic() + outcome.plan.kill_every < until:
        await asyncio.sleep(outcome.plan.kill_every)
        outcome.restarts.append(await asyncio.to_thread(kill_engine, server))


def kill_engine(server: ServerProcess) -> float:
    """Kill the engine; returns the seconds until another one is there and requests are taken."""
    engine, began = server.engine_process_id(), time.monotonic()
    os.kill(engine, signal.SIGKILL)
    while server.engine_process_id() in (engine, server.standby_process_id()):
        assert time.monotonic() - began < 120, "no other engine was started"
        time.sleep(0.02)
    wait_until_serving(server.address, 120.0)
    return time.monotonic() - began


def _warm(server: ServerProcess) -> None:
    """Calls that make what stays: threads of the transport, machine code."""

    async def call() -> None:
        async with AsyncClient(server.address) as client:
            rng = random.Random(0)
            tally = Tally()
            await asyncio.gather(
                *(call_once(server.address, client, rng, tally) for _ in range(64))
            )

    asyncio.run(call())
    quiet(server)


def quiet(server: ServerProcess) -> int:
    """Wait until nothing runs; returns the blocks that are held."""

    async def wait() -> int:
        async with AsyncClient(server.address) as client:
            async with asyncio.timeout(_QUIET_SECONDS):
                while True:
                    # What an engine tells of itself is up to two seconds old.
                    await asyncio.sleep(2.5)
                    try:
                        stats = await client.stats()
                    except GuidedError:
                        continue
                    if not stats.running and not stats.waiting:
                        return stats.cache.held

    return asyncio.run(wait())


def _rest(server: ServerProcess, outcome: Outcome) -> None:
    """Note the end once the server has come to rest; its threads may take a little."""
    outcome.held_blocks = quiet(server)
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
            )
        except (OSError, ValueError):
            time.sleep(0.1)  # the engine has just been killed


def _tasks(server: ServerProcess) -> int:
    """The tasks of the server's event loop, as it tells them."""
    before = server.log.read_text().count("tasks ")
    server.process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 30
    while (said := server.log.read_text()).count("tasks ") == before:
        assert time.monotonic() < deadline, "the server does not tell its tasks"
        time.sleep(0.05)
    return int(said.rpartition("tasks ")[2].split()[0])


def report(outcome: Outcome) -> str:
    """All figures of a run, and what should not have been."""
    tally = outcome.tally
    lines = [f"{tally.most_open} calls at once, {sum(tally.told.values())} in all:"]
    lines += [
        f"  {kind:12} {said:26} {count:7}" for (kind, said), count in sorted(tally.told.items())
    ]
    seconds = ", ".join(f"{each:.1f}" for each in outcome.restarts)
    lines += [f"engine killed {len(outcome.restarts)} times; serving again after s: {seconds}"]
    lines += ["moment  server MiB  thr  fds  tasks | standby MiB | engine MiB  thr  fds"]
    lines += [
        f"{m.name:7} {m.server.mebibytes:10.1f} {m.server.threads:4} {m.server.descriptors:4}"
        f" {m.tasks:6} | {m.standby.mebibytes:11.1f} | {m.engine.mebibytes:10.1f}"
        f" {m.engine.threads:4} {m.engine.descriptors:4}"
        for m in outcome.moments
    ]
    faults = outcome.faults
    lines += [f"{len(faults)} faults", *faults[:50]]
    return "\n".join(lines)


def main() -> int:
    """Run the soak of the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=Plan.seconds)
    parser.add_argument("--streams", type=int, default=Plan.streams)
    parser.add_argument("--kill-every", type=float, default=Plan.kill_every)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    given = parser.parse_args()
    plan = Plan(given.seconds, given.streams, given.kill_every, given.seed)
    typer.echo(f"seed {plan.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="guided-soak-") as folder,
        soak_server(Path(folder), plan.streams) as server,
    ):
        outcome = run_soak(server, plan)
    typer.echo(report(outcome))
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())
