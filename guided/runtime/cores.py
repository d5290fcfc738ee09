"""How many cores this process may keep busy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from guided.runtime.control_groups import group_folders

__all__ = ["usable_cores"]

_ROOT: Final = Path("/")


def usable_cores(root: Path = _ROOT) -> int:
    """Return the number of cores whose time this process may use, at least 1.

    It counts the cores that the process may run on, the two threads of one core once; or fewer if a
    control group has a quota, as in a container of ``docker run --cpus 2``: more threads than that
    are stopped for most of each period, all of them while they wait for each other. ``root``
    contains ``proc`` and ``sys``.
    """
    return max(1, int(min([_physical_cores(root), *_quotas(root)])))


def _physical_cores(root: Path) -> int:
    """Count the cores of the processors in the affinity mask."""
    siblings = set()
    for cpu in os.sched_getaffinity(0):
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        siblings.add(topology.read_text().strip() if topology.exists() else str(cpu))
    return len(siblings)


def _quotas(root: Path) -> Iterator[float]:
    """Yield the limit of each control group, in cores."""
    for folder in group_folders("cpu", root):
        both, quota, period = (
            folder / name for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
        )
        if both.is_file():  # version 2
            yield from _quota(*both.read_text().split())
        elif quota.is_file() and period.is_file():
            yield from _quota(quota.read_text(), period.read_text())


def _quota(microseconds: str, period: str) -> Iterator[float]:
    """Yield the cores that so many microseconds in each period are; nothing if unlimited."""
    if microseconds != "max" and int(microseconds) > 0:  # -1 is unlimited in version 1
        yield int(microseconds) / int(period)
