"""Shows where the time of a step goes: `python -m benchmarks.step_phases [WORKLOAD] [--batch N]`.

WORKLOAD is as for `model_calls.py`. Requests are answered greedily in one process, N at once, after
two that do not count; with ``--warm`` all were answered before, so that nothing of their schemas is
met for the first time. Prints the milliseconds of a step by phase, as the engine counts them, and
the share of a step outside the forward pass. With one thread it is the process's own time, so that
other programs on the machine do not count; with more it is wall time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.model_calls import read_requests
from guided.engine import load_engine
from guided.engine.engine import Engine
from guided.model.batch import StepBatch, StepOutput
from guided.model.runner import ModelRunner
from guided.spec import GenerationRequest
from guided.stats import Phase

_PHASES = {
    Phase.TAKE: "compile",
    Phase.ADMIT: "admit",
    Phase.DRAFT: "draft",
    Phase.RESERVE: "reserve",
    Phase.FORWARD: "pack, split",
    Phase.SETTLE: "verify, commit, extend",
}
"""What the engine does in each phase, apart from the forward pass."""


class Stopwatch:
    """Measures forward passes and all steps, and what the engine counts in between."""

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._clock = clock
        self.forward = 0.0
        self.seconds = 0.0
        self.steps = 0
        engine._counters.reset(clock)

    def watch_forward(self) -> None:
        """Time each forward pass from now on."""
        compute = ModelRunner.forward

        def forward(runner: ModelRunner, batch: StepBatch) -> StepOutput:
            began = self._clock()
            try:
                return compute(runner, batch)
            finally:
                self.forward += self._clock() - began

        ModelRunner.forward = forward  # type: ignore[method-assign]

    def answer(self, requests: Mapping[str, GenerationRequest], batch: int) -> None:
        """Answer all requests, and count the time."""
        began, calls = self._clock(), self._engine.stats().model_calls
        answer(self._engine, requests, batch)
        self.seconds += self._clock() - began
        self.steps += self._engine.stats().model_calls - calls

    def phases(self) -> dict[str, float]:
        """Return the seconds by phase, with the forward pass separately, and the rest."""
        counted = self._engine.stats().phases
        phases = {name: counted[phase] for phase, name in _PHASES.items()}
        phases["pack, split"] -= self.forward
        phases["forward"] = self.forward
        phases["rest of the step"] = self.seconds - sum(phases.values())
        return phases


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
    watch = Stopwatch(engine, time.process_time if options.threads == 1 else time.perf_counter)
    watch.watch_forward()
    watch.answer(requests, options.batch)
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
    table = Table("phase", "ms a step", "share")
    for phase, spent in watch.phases().items():
        table.add_row(phase, f"{1e3 * spent / watch.steps:.2f}", f"{spent / watch.seconds:.1%}")
    table.add_section()
    table.add_row("all", f"{1e3 * watch.seconds / watch.steps:.2f}", "")
    console = Console()
    console.print(table)
    outside = 1 - watch.forward / watch.seconds
    console.print(
        f"{watch.seconds:.1f} s, {watch.steps} steps; outside of the forward pass: {outside:.1%}"
    )


if __name__ == "__main__":
    main()
