"""The cores that may be used are those of the affinity mask, or fewer by a quota."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from guided.runtime.cores import usable_cores

V2, V1 = "0::/a/b\n", "3:memory:/\n4:cpu,cpuacct:/a/b\n0::/\n"
V1_FOLDER = "sys/fs/cgroup/cpu/a/b"
TABLE: dict[str, tuple[dict[str, str], int]] = {
    "no groups": ({}, 8),
    "no quota": ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 8),
    "a quota": ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "300000 100000\n"}, 3),
    "a part of a core more": (
        {"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "290000 100000\n"},
        2,
    ),
    "less than a core": ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "5000 100000\n"}, 1),
    "more than there are": (
        {"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "1600000 100000\n"},
        8,
    ),
    "a quota further up": (
        {
            "proc/self/cgroup": V2,
            "sys/fs/cgroup/a/b/cpu.max": "500000 100000\n",
            "sys/fs/cgroup/a/cpu.max": "20000 10000\n",
        },
        2,
    ),
    "in a container that sees itself as the root": (
        {"proc/self/cgroup": V2, "sys/fs/cgroup/cpu.max": "400000 100000\n"},
        4,
    ),
    "the first version": (
        {
            "proc/self/cgroup": V1,
            f"{V1_FOLDER}/cpu.cfs_quota_us": "200000\n",
            f"{V1_FOLDER}/cpu.cfs_period_us": "100000\n",
        },
        2,
    ),
    "the first version without a quota": (
        {
            "proc/self/cgroup": V1,
            f"{V1_FOLDER}/cpu.cfs_quota_us": "-1\n",
            f"{V1_FOLDER}/cpu.cfs_period_us": "100000\n",
        },
        8,
    ),
}


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


@pytest.mark.parametrize("case", TABLE)
def test_the_least_quota_counts(case: str, tmp_path: Path) -> None:
    files, expected = TABLE[case]
    _write(tmp_path, files)
    assert usable_cores(tmp_path) == expected


def test_the_threads_of_a_core_count_once(tmp_path: Path) -> None:
    folder = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    _write(tmp_path, {folder.format(cpu): f"{cpu % 4},{cpu % 4 + 4}\n" for cpu in range(8)})
    assert usable_cores(tmp_path) == 4


def _write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
