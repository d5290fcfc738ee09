"""A disk of 1 MB that only one process sees, for tests that fill it up."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import pytest

from tests.kit.forks import forking

__all__ = ["on_small_disk"]

_NEW_NAMESPACES: Final = 0x00020000 | 0x10000000  # of mounts, of users
_PRIVATE: Final = 0x4000 | 0x40000  # mounts below show nowhere else


def on_small_disk(
    folder: Path, program: Callable[[Path], str], variables: Mapping[str, str]
) -> str:
    """The output of a function of a module in its own process, with the disk mounted on a folder.

    Skips the test if mounting is not permitted.
    """
    folder.mkdir()
    ours, theirs = forking().Pipe()
    process = forking().Process(target=_run, args=(folder, program, dict(variables), theirs))
    process.start()
    theirs.close()
    with ours:
        if (refusal := ours.recv()) is not None:
            process.join()
            pytest.skip(f"mounting a small disk in a namespace of its own: {refusal}")
        said: str = ours.recv()
    process.join()
    return said


def _run(
    folder: Path,
    program: Callable[[Path], str],
    variables: dict[str, str],
    control: Connection[str | None, str],
) -> None:
    os.environ.update(variables)
    try:
        _mount_small_disk(folder)
    except OSError as error:
        control.send(str(error))
        return
    control.send(None)
    control.send(program(folder))


def _mount_small_disk(folder: Path) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _check(library.unshare(_NEW_NAMESPACES))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _check(library.mount(b"none", b"/", None, ctypes.c_ulong(_PRIVATE), None))
    size = b"size=1m"
    _check(library.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), size))


def _check(status: int) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
