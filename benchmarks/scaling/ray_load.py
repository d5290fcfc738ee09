"""Measures a Ray cluster of two nodes on this machine under load.

`.venv/ray/bin/python -m benchmarks.scaling.ray_load WHAT`, where WHAT is

=======  ===========================================================================================
kills    10,000 requests, 200 at once, to four engines of a tiny model, one of which is killed every
         20 seconds: how many were answered, failed with their engine, lost, doubled or wrong;
         exits with 1 if any was lost, doubled or wrong, or if no engine was killed
growth   answers per second and times of one, two and four engines that sleep for as long as a step
         takes, next to the figures of ``simulation``, and how much more four answer than one
routing  cache hits and times of four such engines, routed by prompts and constraints, by Ray's own
         router and in turn, next to the figures of ``simulation``
caches   the same for the real caches of four engines of a tiny model
=======  ===========================================================================================

Figures are printed as Markdown tables. On two quiet cores ``kills`` takes about four minutes, the
others up to ten.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.scaling.load import Arrival, Load
from benchmarks.scaling.options import numbers, parser_of
from benchmarks.scaling.report import Answered, Hits, Report, heading
from benchmarks.scaling.simulation import simulate
from benchmarks.scaling.work import Costs
from guided import AsyncClient, Client, RawPrompt, Regex, Request
from guided.client import wait_until_serving
from guided.stats import EngineStats
from tests.kit.tiny_model import save_tiny_model
from tests.ray.cluster import Serving, cluster, config_of
from tests.ray.kills import ask_while_engines_are_killed

_SLEEPING: Final = "benchmarks.scaling.app"
_REAL: Final = "guided_service.ray.app"


def _router(path: str) -> dict[str, Any]:
    return {"request_router_config": {"request_router_class": path}}


_ROUTERS: Final[Mapping[str, dict[str, Any]]] = {
    "affinity": {},
    "two choices": _router("ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter"),
    "in turn": _router("ray.serve.experimental.round_robin_router:RoundRobinRouter"),
}
"""Options of the engines' deployment, by the policy names of the simulation."""

ALONE: Final = Costs(call=0.1, batch=8)
"""Costs of an engine whose calls take the same time whatever is in them."""

STEPS: Final = Costs(
    call=0.02,
    token=0.0002,
    compiling=0.05,
    batch=16,
    kept_tokens=32_768,
    kept_constraints=16,
)
"""Costs of an engine whose caches have room for a third of the applications."""

APPLICATIONS: Final = Load(
    rate=14.0,
    count=1,
    applications=48,
    shared_bytes=8192,
    own_bytes=256,
    tokens=16,
    constraints=None,
)


def main() -> int:
    """Run one of the measurements; returns the exit status."""
    parser = parser_of("A Ray cluster on this machine under load.", engines=(1, 2, 4))
    parser.add_argument("what", choices=sorted(_MEASUREMENTS))
    parser.add_argument("--requests", type=int, default=10_000, help="of kills")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two kills")
    parser.add_argument("--seconds", type=float, default=60.0, help="in which requests come")
    loads = {"growth": "of what engines can answer", "routing": "a second"}
    parser.add_argument("--loads", type=numbers, default=(0.7, 1.5), help=loads["growth"])
    parser.add_argument("--rates", type=numbers, default=(7.0, 14.0), help=loads["routing"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return _MEASUREMENTS[options.what](Path(folder), options)


def measure_kills(folder: Path, options: argparse.Namespace) -> int:
    """Measure what becomes of requests whose engines are killed."""
    model = save_tiny_model(folder / "model")
    settings = {"max_requests_in_flight": 256, "max_requests_of_one": 256, "threads": 1}
    with served(folder, _REAL, 4, model=str(model), **settings) as serving:
        patterns = [f"item {i}: [a-z]{{{_LETTERS}}}" for i in range(options.requests)]
        requests = [Request(RawPrompt(each), Regex(each), max_tokens=100) for each in patterns]
        due = _every(options.every)
        began = time.monotonic()
        came = ask_while_engines_are_killed(
            serving,
            requests,
            is_right=lambda i, text: re.fullmatch(patterns[i], text) is not None,
            is_due=lambda _: next(due),
            at_once=200,
        )
        seconds = time.monotonic() - began
    print("| requests | seconds | engines killed | answered | told | lost | twice | wrong |")
    print(f"|{'---|' * 8}")
    bad = (len(came.lost), len(came.twice), len(came.wrong))
    counts = (len(requests), round(seconds), came.kills, came.answered, came.told.total(), *bad)
    print(f"| {' | '.join(map(str, counts))} |")
    for text, count in came.told.items():
        print(f"\n{count} were told: {text}")
    print(*came.wrong[:5], sep="\n", file=sys.stderr)
    if not came.kills:
        print("no engine was killed: ask for more --requests", file=sys.stderr)
    return int(any(bad) or not came.kills)


def measure_growth(folder: Path, options: argparse.Namespace) -> int:
    """Measure answers per second by number of engines, below and above their full load."""
    print(heading("engines", ""))
    rates: dict[float, list[float]] = {share: [] for share in options.loads}
    for engines in options.engines:
        with served(folder, _SLEEPING, engines, model=_written(ALONE), **_ROOM) as serving:
            for share in options.loads:
                rate = share * engines * ALONE.batch / ALONE.call / _TOKENS
                load = Load(rate, count=round(options.seconds * rate), tokens=_TOKENS)
                seen = asyncio.run(seen_of(serving.address, list(load.arrivals())))
                _print(f"{engines}, asked {rate:.1f} a second", seen, load, ALONE, engines)
                rates[share].append(seen.rate)
    for share, seen_rates in rates.items():
        growth = f"{seen_rates[-1] / seen_rates[0]:.2f} times as much as {options.engines[0]}"
        print(f"\nAsked {share:.0%}, {options.engines[-1]} engines answer {growth}.")
    return 0


def measure_routing(folder: Path, options: argparse.Namespace) -> int:
    """Measure what routing by prompts and constraints saves."""
    print(heading("routing", ""))
    for rate in options.rates:
        load = replace(APPLICATIONS, rate=rate, count=round(rate * options.seconds))
        for policy in _ROUTERS:
            # Each starts with empty caches.
            with served(folder, _SLEEPING, 4, policy, model=_written(STEPS), **_ROOM) as serving:
                seen = asyncio.run(seen_of(serving.address, list(load.arrivals())))
                _print(f"{policy}, asked {rate:g} a second", seen, load, STEPS, 4, policy)
    return 0


_LETTERS: Final = 16
"""Length of each answer, so that an engine has many running when it is killed."""

_TOKENS: Final = 16

_ROOM: Final = {"max_requests_in_flight": 2000, "max_requests_of_one": 2000}


def _written(costs: Costs) -> str:
    return msgspec.json.encode(costs).decode()


def _print(
    title: str, seen: Report, load: Load, costs: Costs, engines: int, policy: str = "affinity"
) -> None:
    """Print two rows of a table: for a cluster, and for the simulation."""
    predicted = simulate(load.arrivals(), costs, engines=engines, policy=policy)
    print(f"| {title} | seen | {seen.row()} |")
    print(f"| | predicted | {predicted.row()} |", flush=True)


def measure_caches(folder: Path, options: argparse.Namespace) -> int:
    """Measure how much of prompts real engines computed again, and how long they compiled."""
    model = str(save_tiny_model(folder / "model"))
    print(heading("routing"))
    load = replace(APPLICATIONS, rate=8.0, count=round(8 * options.seconds), shared_bytes=2048)
    room = {**_ROOM, "cache_tokens": 48 * 2048 // 3}
    for policy in _ROUTERS:
        with served(folder, _REAL, 4, policy, model=model, threads=1, **room) as serving:
            report = asyncio.run(seen_of(serving.address, list(load.arrivals())))
            with Client(serving.address) as client:
                compiling = client.stats().compiling
        print(f"| {policy} | {report.row()} |")
        print(f"compiling, mean: {1000 * compiling.mean:.1f} ms", flush=True)
    return 0


@contextmanager
def served(
    folder: Path, application: str, engines: int, policy: str = "affinity", **settings: object
) -> Iterator[Serving]:
    """Run a cluster of two nodes with this many engines."""
    with cluster(folder, nodes=2, cpus=1 + (engines + 1) // 2) as serving:
        per_node = (engines + 1) // 2
        config = config_of(serving.port, engines, application, settings, per_node=per_node)
        config["applications"][0]["deployments"][0] |= _ROUTERS[policy]
        serving.deploy(config)
        wait_until_serving(serving.address, 120)
        yield serving


async def seen_of(address: str, arrivals: Sequence[Arrival]) -> Report:
    """Send the requests of the load, each as a stream, and record when their answers came."""
    loop = asyncio.get_running_loop()
    async with AsyncClient(address, timeout=600) as client:
        began, before = loop.time(), await client.stats()

        async def ask(arrival: Arrival) -> Answered:
            await asyncio.sleep(began + arrival.at - loop.time())
            prompt, tokens = RawPrompt(arrival.prompt), arrival.tokens
            asked = (Regex(arrival.constraint),) if arrival.constraint else ()
            first = None
            async with client.stream(prompt, *asked, max_tokens=tokens) as stream:
                async for _ in stream:
                    first = first or loop.time() - began
            ended = loop.time() - began
            return Answered(arrival.at, first or ended, ended)

        answered = await asyncio.gather(*map(ask, arrivals))
        await asyncio.sleep(2.0)  # engines report their statistics each second
        return Report(answered, _hits((await client.stats()).since(before)))


def _hits(stats: EngineStats) -> Hits:
    known, compiled = stats.compiling.counts[0], sum(stats.compiling.counts[1:])
    return Hits(stats.usage.prompt_tokens, stats.usage.reused_tokens, known + compiled, compiled)


def _every(seconds: float) -> Iterator[bool]:
    """Yield True once in this many seconds."""
    last = time.monotonic()
    while True:
        is_due = time.monotonic() >= last + seconds
        last += seconds if is_due else 0.0
        yield is_due


_MEASUREMENTS: Final[Mapping[str, Callable[[Path, argparse.Namespace], int]]] = {
    "kills": measure_kills,
    "growth": measure_growth,
    "routing": measure_routing,
    "caches": measure_caches,
}

if __name__ == "__main__":
    sys.exit(main())
