"""The control groups that this process is in, each with the groups around it (cgroups(7))."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["group_folders"]


def group_folders(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of the groups whose limits apply to this process, from the innermost on.

    They are those of version 2, and of version 1 for ``controller``, such as ``memory``; their
    files say which. In a container only the outermost may be visible, so missing ones are left out.
    ``root`` contains ``proc`` and ``sys``.
    """
    membership_file = root / "proc/self/cgroup"
    if not membership_file.exists():
        return
    for line in membership_file.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mount = root / "sys/fs/cgroup"
        if controllers:  # version 1
            if controller not in controllers.split(","):
                continue
            mount /= controller
        group = mount / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(mount) and folder.is_dir():
                yield folder
