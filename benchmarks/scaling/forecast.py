"""What many engines would answer: `python -m benchmarks.scaling.forecast [--engines 1,4,16]`.

Prints two tables for SmolLM2-135M on two cores each: throughput and times by the number of engines,
and by load and routing for 16 of them (docs/scaling.md).
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import Final

from benchmarks.scaling.load import Load
from benchmarks.scaling.report import heading
from benchmarks.scaling.simulation import POLICIES, simulate
from benchmarks.scaling.work import Costs

SMOLLM2: Final = Costs(
    call=0.0145, token=0.00038, compiling=0.002, batch=16, kept_tokens=16_384, kept_constraints=256
)
"""``forward.py`` on a Xeon with two cores, bf16: 15.1 ms for one token, 39 for 64, 110 for 256."""

INGRESS: Final = 0.0075
"""Seconds of an ingress for a request: ``guided deploy ray`` with engines that echo."""

_USE: Final = 0.7
"""Of what engines can answer, where the table is by their number."""

_SECONDS: Final = 30.0

APPLICATIONS: Final = Load(
    rate=1.0,
    count=1,
    applications=96,
    shared_bytes=4096,
    own_bytes=256,
    tokens=32,
    constraints=None,
)
"""Those of 16 engines: with other numbers of engines there are in proportion as many."""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="What many engines would answer.")
    parser.add_argument("--engines", default="1,2,4,16,64,256")
    options = parser.parse_args()
    full = _most()
    print(f"An engine whose caches have everything answers {full:.1f} a second.\n")
    print(heading("engines", "ingresses", "asked/s"))
    for engines in map(int, options.engines.split(",")):
        rate = _USE * full * engines
        needed = math.ceil(rate * INGRESS / _USE)
        for ingresses in sorted({1, needed}):
            print(f"| {engines} | {ingresses} | {rate:.0f} | {_row(engines, rate, ingresses)} |")
    print()
    print(heading("routing", "load"))
    for policy in POLICIES:
        for use in (0.3, 0.5, 0.7, 0.9):
            print(f"| {policy} | {use:.0%} | {_row(16, use * full * 16, 2, policy)} |", flush=True)


def _row(engines: int, rate: float, ingresses: int, policy: str = "affinity") -> str:
    load = replace(
        APPLICATIONS,
        rate=rate,
        count=int(rate * _SECONDS),
        applications=max(1, APPLICATIONS.applications * engines // 16),
    )
    report = simulate(
        load.arrivals(),
        SMOLLM2,
        engines=engines,
        policy=policy,
        ingress=INGRESS,
        ingresses=ingresses,
    )
    return report.row()


def _most() -> float:
    """Answers a second of one engine that is never idle and finds all that it needs."""
    load = replace(APPLICATIONS, rate=1000.0, count=2000, applications=1)
    return simulate(load.arrivals(), SMOLLM2).rate


if __name__ == "__main__":
    main()
