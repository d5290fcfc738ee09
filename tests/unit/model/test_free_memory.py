"""Free memory is the least that the system and the control groups above leave."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from guided.model.free_memory import free_memory

CPU = torch.device("cpu")
V2, V1 = "0::/a/b\n", "4:cpu,memory:/a/b\n0::/\n"
LIMIT_V1 = "sys/fs/cgroup/memory/a/memory.limit_in_bytes"
TABLE: dict[str, tuple[dict[str, str], int]] = {
    "no limit": ({}, 8000 * 1024),
    "no groups": ({"proc/self/cgroup": ""}, 8000 * 1024),
    "a limit": (
        {
            "proc/self/cgroup": V2,
            "sys/fs/cgroup/a/b/memory.max": "1000\n",
            "sys/fs/cgroup/a/b/memory.current": "300\n",
            "sys/fs/cgroup/a/b/memory.stat": "anon 200\ninactive_file 50\n",
        },
        750,
    ),
    "a limit further up": (
        {
            "proc/self/cgroup": V2,
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/memory.max": "900\n",
            "sys/fs/cgroup/a/memory.current": "300\n",
            "sys/fs/cgroup/a/memory.stat": "inactive_file 0\n",
        },
        600,
    ),
    "in a container that sees itself as the root": (
        {
            "proc/self/cgroup": V2,
            "sys/fs/cgroup/memory.max": "500\n",
            "sys/fs/cgroup/memory.current": "100\n",
            "sys/fs/cgroup/memory.stat": "inactive_file 0\n",
        },
        400,
    ),
    "used beyond its limit": (
        {
            "proc/self/cgroup": V2,
            "sys/fs/cgroup/memory.max": "500\n",
            "sys/fs/cgroup/memory.current": "600\n",
            "sys/fs/cgroup/memory.stat": "inactive_file 0\n",
        },
        0,
    ),
    "the first version": (
        {
            "proc/self/cgroup": V1,
            LIMIT_V1: "1000\n",
            "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "600\n",
            "sys/fs/cgroup/memory/a/memory.stat": "inactive_file 1\ntotal_inactive_file 20\n",
        },
        420,
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_least_counts(case: str, tmp_path: Path) -> None:
    files, expected = TABLE[case]
    meminfo = {"proc/meminfo": "MemTotal: 16000 kB\nMemFree: 10 kB\nMemAvailable: 8000 kB\n"}
    for name, content in (meminfo | files).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert free_memory(CPU, tmp_path) == expected


def test_this_machine_has_some() -> None:
    assert free_memory(CPU) > 2**20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_device_has_some() -> None:
    assert free_memory(torch.device("cuda")) > 2**20
