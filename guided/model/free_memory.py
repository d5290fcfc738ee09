"""How much memory can still be taken, and amounts of it for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from pydantic import ByteSize

from guided.runtime.control_groups import group_folders

__all__ = ["free_memory", "size_text"]

_KIB = 1024
_ROOT = Path("/")
_LIMITS = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""The files of a limit and of what is used, in version 2 of control groups and in version 1."""


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
    for folder in group_folders("memory", root):
        for limit, usage in _LIMITS:
            if (folder / limit).is_file():
                yield from _bytes_left(folder, limit, usage)


def _bytes_left(folder: Path, limit: str, usage: str) -> Iterator[int]:
    """Yield the bytes left below the limit of a control group, if it has one.

    Cached files that can be dropped count as free.
    """
    allowed = (folder / limit).read_text().strip()
    if allowed != "max":
        cached = _read_numbers(folder / "memory.stat")
        evictable = cached.get("total_inactive_file", cached.get("inactive_file", 0))
        yield max(0, int(allowed) - int((folder / usage).read_text()) + evictable)


def _read_numbers(file: Path) -> dict[str, int]:
    """Return the number of each line ``name number`` of a file; other words are ignored."""
    lines = (line.split() for line in file.read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}
