"""Measures a server's restarts after kills: `python -m benchmarks.restart [--kills 5]`.

Prints the seconds of a start, those from each kill -9 until requests are taken by another engine,
and the memory of the server's processes: their private memory, and their share of shared memory.
Settings of the server are read from the environment; GUIDED_STANDBY=false starts each engine from
scratch.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from benchmarks.e2e_adapter import processes_of, serving
from guided.client import wait_until_serving

_PAUSE_SECONDS = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a server is away.")
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    began = time.monotonic()
    with serving({}) as (process, address):
        print(f"start {time.monotonic() - began:.1f} s")
        for _ in range(options.kills):
            print(f"killed, back after {restart(process.pid, address):.2f} s", flush=True)
        for number, name in zip(processes_of(process.pid), NAMES, strict=False):
            own, share = memory_of(number)
            print(f"{name}: {own:.0f} MiB alone, {share:.0f} MiB with its share")


NAMES = ("server", "standby or engine", "engine")


def restart(server: int, address: str) -> float:
    """Kill the engine; returns the seconds until another one takes requests."""
    before, began = processes_of(server), time.monotonic()
    os.kill(before[-1], signal.SIGKILL)
    while len(now := processes_of(server)) < len(before) or now[-1] == before[-1]:
        time.sleep(_PAUSE_SECONDS)
    wait_until_serving(address, 600.0)
    return time.monotonic() - began


def memory_of(process: int) -> tuple[float, float]:
    """Return a process's private MiB, and its proportional set size."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: int(rest.split()[0]) for name, rest in (line.split(":", 1) for line in lines)}
    return (sizes["Private_Clean"] + sizes["Private_Dirty"]) / 1024, sizes["Pss"] / 1024


if __name__ == "__main__":
    main()
