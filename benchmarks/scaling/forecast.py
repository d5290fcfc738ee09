"""Forecasts many engines: `python -m benchmarks.scaling.forecast [--engines 1,4,16]`.

Prints three tables for SmolLM2-135M on two cores each: throughput and times by the number of
engines, by load and routing for 16 of them, and by the weight of a constraint (docs/scaling.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec
from typing_extensions import override

from benchmarks.scaling.load import Load
from benchmarks.scaling.options import parser_of
from benchmarks.scaling.report import heading
from benchmarks.scaling.simulation import POLICIES, simulate
from benchmarks.scaling.work import Costs
from guided_service.ray.affinity import Affinity
from guided_service.ray.worth import Worth

SMOLLM2: Final = Costs(
    call=0.0145, token=0.00038, compiling=0.002, batch=16, kept_tokens=16_384, kept_constraints=256
)
"""``forward.py`` on a Xeon with two cores, bf16: 15.1 ms for one token, 39 for 64, 110 for 256."""

INGRESS: Final = 0.0075
"""Seconds that an ingress takes for a request: ``guided deploy ray`` with engines that echo."""

_USE: Final = 0.7
"""The load, as a share of what engines can answer, in the table by their number."""

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
"""The applications for 16 engines; other numbers of engines have proportionally many."""


def main() -> None:
    """Print the tables."""
    parser = parser_of("What many engines would answer.", engines=(1, 2, 4, 16, 64, 256))
    options = parser.parse_args()
    full = _most()
    print(f"An engine whose caches have everything answers {full:.1f} a second.\n")
    print(heading("engines", "ingresses", "asked/s"))
    for engines in options.engines:
        rate = _USE * full * engines
        needed = math.ceil(rate * INGRESS / _USE)
        for ingresses in sorted({1, needed}):
            print(f"| {engines} | {ingresses} | {rate:.0f} | {_row(engines, rate, ingresses)} |")
    print()
    print(heading("routing", "load"))
    for policy in POLICIES:
        for use in (0.3, 0.5, 0.7, 0.9):
            print(f"| {policy} | {use:.0%} | {_row(16, use * full * 16, 2, policy)} |", flush=True)
    print()
    print(heading("a constraint counts for", "compiled in"))
    for name, worth in _WORTHS.items():
        for milliseconds in (2, 20, 200):
            print(f"| {name} | {milliseconds} ms | {_weighed(milliseconds / 1000, worth)} |")


def _weighed(compiling: float, worth: Callable[[], Worth]) -> str:
    """Simulate four engines with room for a third of the constraints each."""
    costs = msgspec.structs.replace(SMOLLM2, compiling=compiling, kept_constraints=16)
    load = Load(25.0, count=1500, applications=48, shared_bytes=1024, own_bytes=256, constraints=48)
    return simulate(load.arrivals(), costs, engines=4, ingress=INGRESS, worth=worth).row()


class _Fixed(Worth):
    """A fixed worth of each constraint, whatever was learned."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    @override
    def weighed(self, affinity: Affinity) -> Affinity:
        return replace(affinity, constraint_bytes=self._count)


_WORTHS: Final[Mapping[str, Callable[[], Worth]]] = {
    "256 bytes": partial(_Fixed, 256),
    "2,048 bytes": partial(_Fixed, 2048),
    "what was learned": Worth,
}


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
    """Return the answers per second of a never idle engine that finds all that it needs."""
    load = replace(APPLICATIONS, rate=1000.0, count=2000, applications=1)
    return simulate(load.arrivals(), SMOLLM2).rate


if __name__ == "__main__":
    main()
