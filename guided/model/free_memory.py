"""How much memory can still be taken, and amounts of it for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from pydantic import ByteSize

__all__ = ["free_memory", "size_text"]

_KIB = 1024
_ROOT = Path("/")


def free_memory(device: torch.device, root: Path = _ROOT) -> int:
    """Return the bytes that can still be taken on a device; ``root`` contains ``proc`` and ``sys``.

    On the CPU it is what the system calls available, or less if a control group has a limit; files
    that are only cached count as free. On CUDA it is what the driver reports.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return min([_available(root), *_bytes_left_in_groups(root)])


def size_text(nbytes: int) -> str:
    """Format an amount, such as ``1.5 GiB``."""
    return ByteSize(nbytes).human_readable(separator=" ")


def _available(root: Path) -> int:
    """Return the bytes that the system calls available."""
    return _KIB * _read_numbers(root / "proc/meminfo")["MemAvailable:"]


def _bytes_left_in_groups(root: Path) -> Iterator[int]:
    """Yield what is left below the limit of each control group that this process is in."""
    membership_file = root / "proc/self/cgroup"
    if not membership_file.exists():
        return
    for line in membership_file.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # cgroup v2
            yield from _bytes_left(root / "sys/fs/cgroup", path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):  # cgroup v1
            yield from _bytes_left(
                root / "sys/fs/cgroup/memory",
                path,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )


def _bytes_left(mount: Path, path: str, limit: str, usage: str) -> Iterator[int]:
    """Yield the bytes left below each limit of a control group and of the groups around it.

    In a container only the root of the ``mount`` may be visible, so missing folders are skipped.
    Cached files that can be dropped count as free.
    """
    group = mount / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder.is_relative_to(mount) and (folder / limit).is_file():
            allowed = (folder / limit).read_text().strip()
            if allowed != "max":
                cached = _read_numbers(folder / "memory.stat")
                evictable = cached.get("total_inactive_file", cached.get("inactive_file", 0))
                yield max(0, int(allowed) - int((folder / usage).read_text()) + evictable)


def _read_numbers(file: Path) -> dict[str, int]:
    """Return the number of each line ``name number`` of a file; other words are ignored."""
    lines = (line.split() for line in file.read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}
