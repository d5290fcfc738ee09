"""Mutated calls and hostile constraints for a server: each call gets a status that says why.

The long form is ``python -m tests.kit.fuzz_service [--messages 100000] [--constraints 10000]``. A
status of the kind INTERNAL or UNKNOWN, of a call or of one request of a batch, is a fault, and so
is a 500 over HTTP, an engine that had to be started again, and memory that keeps growing: the
memory after the last call, once the server is idle, is compared with the maximum of the first half.
Memory goes up and down, because at times a few large constraints are kept for other requests.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import typer

from tests.kit.service_calls import Call, hostile_calls, mutated_calls
from tests.kit.soak import quiet, settled, soak_server
from tests.kit.told_calls import Outcome, make_calls
from tests.kit.web_callers import model_of
from tests.service.http_server import HttpServer

__all__ = ["Look", "Tried", "try_calls"]

_LOOKS: Final = tuple([tenths / 10 for tenths in range(1, 11)])
"""Shares of the calls after which the long form reads the memory."""
_SHARE: Final = 1.05
"""The largest allowed ratio of memory at the end to the maximum of the first half."""


@dataclass(frozen=True)
class Look:
    """Memory in MiB of the idle server after a number of calls."""

    calls: int
    server: float
    engine: float

    def __str__(self) -> str:
        return f"{self.calls:9} {self.server:10.1f} {self.engine:10.1f}"


@dataclass
class Tried:
    """The outcomes of calls, and the memory after them."""

    outcome: Outcome = field(default_factory=Outcome)
    looks: list[Look] = field(default_factory=list)
    """At the start, after a tenth of the calls, and so on to the end."""

    @property
    def faults(self) -> list[str]:
        """The faults, apart from memory."""
        return self.outcome.faults

    def grown(self) -> list[str]:
        """The memory that was not released."""
        _, *earlier, last = self.looks
        early = [look for look in earlier if 2 * look.calls <= last.calls]
        return [
            f"the {name} grew from {before:.1f} to {after:.1f} MiB"
            for name, before, after in (
                ("server", max(look.server for look in early), last.server),
                ("engine", max(look.engine for look in early), last.engine),
            )
            if after > _SHARE * before
        ]

    def __str__(self) -> str:
        heads = f"{'calls':>9} {'server MiB':>10} {'engine MiB':>10}"
        lines = [self.outcome.table(), heads, *map(str, self.looks), *self.faults[:50]]
        return "\n".join(lines)


def try_calls(
    server: HttpServer,
    calls: Iterable[Call],
    count: int,
    seconds: float,
    looks: Sequence[float] = (0.1, 1.0),
    tell: Callable[[str], object] = str,
) -> Tried:
    """Make ``count`` of the calls, each with a time limit, some at once.

    ``tell`` gets the memory at each of the ``looks``, which are shares of the calls.
    """
    process, drawn = server.process, iter(calls)
    tried, engine = Tried(), process.engine_process_id()
    tried.looks.append(Look(0, *settled(process)))
    for before, after in itertools.pairwise([0, *[int(count * share) for share in looks]]):
        making = make_calls(
            process.address, server.url, drawn, after - before, seconds, tried.outcome
        )
        asyncio.run(making)
        quiet(process)
        if process.engine_process_id() != engine:
            tried.faults.append("the engine was started again")
            engine = process.engine_process_id()
        tried.looks.append(Look(after, *settled(process)))
        tell(str(tried.looks[-1]))
    return tried


def main() -> int:
    """Try as much as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--constraints", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    given = parser.parse_args()
    typer.echo(f"seed {given.seed}")
    failed = False
    with (
        tempfile.TemporaryDirectory(prefix="guided-fuzz-") as folder,
        soak_server(Path(folder), 64) as server,
    ):
        messages = mutated_calls(random.Random(given.seed), model_of(server.url))
        constraints = hostile_calls(random.Random(given.seed))
        for calls, count in ((messages, given.messages), (constraints, given.constraints)):
            tried = try_calls(server, calls, count, 10.0, _LOOKS, typer.echo)
            tried.faults.extend(tried.grown())
            typer.echo(str(tried))
            failed = failed or bool(tried.faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
