"""Where the time of a step goes: `python benchmarks/step_phases.py [WORKLOAD] [--batch N]`.

WORKLOAD is as for `model_calls.py`. Requests are answered greedily in one process, so many at once,
after two that do not count; with ``--warm`` all were answered before, so that nothing of their
schemas is met for the first time. Printed are milliseconds of a step by phase, each without those
inside it, and what share of a step is outside of the forward pass. With one thread it is the
process's own time, so that other programs on the machine do not count; with more it is wall time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from rich.console import Console
from rich.table import Table

from benchmarks.model_calls import read_requests
from guided.engine import load_engine, running
from guided.engine.engine import Engine
from guided.engine.sequence import Sequence
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.runner import ModelRunner
from guided.spec import GenerationRequest

_PHASES: tuple[tuple[Any, str, str], ...] = (
    (Engine, "submit", "compile, admit"),
    (Engine, "_prepare", "compile, admit"),
    (Engine, "_admit_waiting", "compile, admit"),
    (Engine, "_draft", "draft"),
    (Engine, "_with_room", "reserve, pack"),
    (Engine, "_reserve", "reserve, pack"),
    (Engine, "_forward", "reserve, pack"),
    (ModelRunner, "forward", "forward"),
    (running, "verify", "verify, sample"),
    (SequenceBlocks, "commit", "commit, extend"),
    (ModelRunner, "copy", "commit, extend"),
    (Sequence, "extend", "commit, extend"),
)
"""Functions by owner and name, and the phase whose time they are."""
_STEP = "step"
"""What is left of a step."""


class Stopwatch:
    """Seconds by phase; that of a phase inside another one counts for the inner one alone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._inside = [0.0]

    def watch(self, owner: Any, name: str, phase: str) -> None:
        """Time each call of a function of a class or a module from now on."""
        setattr(owner, name, self.timed(getattr(owner, name), phase))

    def timed(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        """The function, whose time counts for the phase."""

        def call(*args: Any, **options: Any) -> Any:
            self._inside.append(0.0)
            began = self._clock()
            try:
                return function(*args, **options)
            finally:
                took = self._clock() - began
                self.seconds[phase] += took - self._inside.pop()
                self.calls[phase] += 1
                self._inside[-1] += took

        return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", type=Path, nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--dtype")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warm", action="store_true")
    options = parser.parse_args()
    engine = load_engine(
        options.model,
        dtype=options.dtype,
        threads=options.threads,
        max_batch=options.batch,
        reuse_prefixes=False,
    )
    requests = read_requests(options.workload)
    rehearsed = requests if options.warm else dict(list(requests.items())[:2])
    answer(engine, rehearsed, options.batch)
    watch = Stopwatch(time.process_time if options.threads == 1 else time.perf_counter)
    for owner, name, phase in _PHASES:
        watch.watch(owner, name, phase)
    watch.watch(Engine, "step", _STEP)
    answer(engine, requests, options.batch)
    report(watch)


def answer(engine: Engine, requests: Mapping[str, GenerationRequest], batch: int) -> None:
    """Answer all requests, each submitted when there is a place for it."""
    waiting, under_way = list(requests.items()), 0
    while waiting or engine.has_work:
        while waiting and under_way < batch:
            engine.submit(*waiting.pop(0))
            under_way += 1
        under_way -= len(engine.step())


def report(watch: Stopwatch) -> None:
    """Print the time of each phase, and the share that the forward pass leaves."""
    steps = watch.calls[_STEP]
    in_steps = sum(watch.seconds.values())
    table = Table("phase", "ms a step", "share")
    for phase in (*dict.fromkeys(phase for *_, phase in _PHASES), _STEP):
        spent = watch.seconds[phase]
        table.add_row(phase, f"{1e3 * spent / steps:.2f}", f"{spent / in_steps:.1%}")
    outside = 1 - watch.seconds["forward"] / in_steps
    table.add_section()
    table.add_row("all", f"{1e3 * in_steps / steps:.2f}", "")
    console = Console()
    console.print(table)
    console.print(f"{in_steps:.1f} s, {steps} steps; outside of the forward pass: {outside:.1%}")


if __name__ == "__main__":
    main()
