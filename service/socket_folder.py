"""Makes the folder of an engine's sockets, and removes those that killed servers left.

A server holds a lock on its folder, which the system releases however the server ends. So a folder
whose lock is free belongs to no running server. The lock is on the folder itself: a file in it
would not exist yet if a server is killed early, and could be removed by a cleaner of temporary
files.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

__all__ = ["SocketFolder", "remove_left_folders"]

_PREFIX: Final = "guided-engine-"


class SocketFolder:
    """A new temporary folder, for this user only, until it is closed."""

    def __init__(self) -> None:
        """Raises OSError if there is no room, or no descriptor, for it."""
        self._lock: int | None = None
        while self._lock is None:
            # Removing it takes a descriptor; without one it is left to the next server.
            self._folder = TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
            self.path = Path(self._folder.name)
            try:
                self._lock = _locked(self.path)
            finally:
                if self._lock is None:
                    self._folder.cleanup()

    def close(self) -> None:
        """Remove the folder, unless it was removed."""
        # Release the lock last: another server might begin to remove the folder as well.
        self._folder.cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(folder: Path) -> int | None:
    """Lock a new folder and return the descriptor, or ``None`` if another server has just taken it
    for a left one."""
    try:
        lock = _opened(folder)
    except FileNotFoundError:
        return None
    try:
        is_ours = _takes(lock)
    except OSError:
        is_ours = True  # no locks on this file system, so no other server can remove it either
    if is_ours and _is_at(lock, folder):
        return lock
    os.close(lock)
    return None


def remove_left_folders() -> None:
    """Remove the folders that this user's ended servers have left behind.

    Folders that cannot be removed stay.
    """
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and _is_ours(entry):
                _remove_if_left(Path(entry.path))


def _is_ours(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        found = entry.stat(follow_symlinks=False)
        return entry.is_dir(follow_symlinks=False) and found.st_uid == os.geteuid()
    return False


def _remove_if_left(folder: Path) -> None:
    with suppress(OSError):
        lock = _opened(folder)
        try:
            if _takes(lock) and _is_at(lock, folder):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _takes(lock: int) -> bool:
    """Take the lock, held until its descriptor is closed, if it is free; returns whether it was."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(lock: int, folder: Path) -> bool:
    """Whether this is the folder now at the path, not one that was removed meanwhile."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), folder.lstat())
    return False
