"""The folder of an engine's sockets, and those that killed servers have left behind.

A server holds a lock on its folder, which the system releases however the server ends. So a folder
whose lock can be had is nobody's. The lock is on the folder itself: a file in it would not be there
yet when a server is killed early, and be gone once a tidier of temporary files has been by.
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
_FORMER_LOCK: Final = "lock"
"""A file that former versions hold a lock on, instead of the folder."""


class SocketFolder:
    """A new folder among the temporary files, for this user alone, until it is closed."""

    def __init__(self) -> None:
        """Raises OSError where there is no room, or no descriptor, for it."""
        self._lock: int | None = None
        while self._lock is None:
            # To remove it takes a descriptor; where there is none it is left to the next server.
            self._folder = TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
            self.path = Path(self._folder.name)
            try:
                self._lock = _locked(self.path)
            finally:
                if self._lock is None:
                    self._folder.cleanup()

    def close(self) -> None:
        """Remove it, unless that was done."""
        # The lock last: somebody else might begin to remove it as well.
        self._folder.cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the lock, or ``None`` where another server took the folder, just when
    it was made, for one that was left.
    """
    try:
        lock = _opened(folder)
    except FileNotFoundError:
        return None
    try:
        is_ours = _takes(lock)
    except OSError:
        is_ours = True  # no locks on this file system, so nobody can take it for left either
    if is_ours and _is_at(lock, folder):
        return lock
    os.close(lock)
    return None


def remove_left_folders() -> None:
    """Remove the folders of this user's servers that have ended without doing so.

    What cannot be removed is left.
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
            if _takes(lock) and _is_at(lock, folder) and not _has_former_lock(folder):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _takes(lock: int) -> bool:
    """Whether the lock can be had; it is held until its descriptor is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(lock: int, folder: Path) -> bool:
    """Whether that is the folder that is there now, and not one that was removed meanwhile."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), folder.lstat())
    return False


def _has_former_lock(folder: Path) -> bool:
    """Whether a server of a former version is in it; raises OSError for what is no such lock."""
    try:
        lock = os.open(folder / _FORMER_LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _takes(lock)
    finally:
        os.close(lock)
