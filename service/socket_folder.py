"""The folder of an engine's sockets, and those that killed servers have left behind.

A server holds a lock on a file in its folder, which the system releases however the server ends. So
a folder whose lock can be had is nobody's.
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
_LOCK: Final = "lock"


class SocketFolder:
    """A new folder among the temporary files, for this user alone, until it is closed."""

    def __init__(self) -> None:
        """Raises OSError where there is no room, or no descriptor, for it."""
        # To remove it takes a descriptor; where there is none it is left to the next server.
        self._folder = TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
        self.path: Final = Path(self._folder.name)
        try:
            self._lock: int | None = _locked(self.path)
        except OSError:
            self._folder.cleanup()
            raise

    def close(self) -> None:
        """Remove it, unless that was done."""
        # The lock last: somebody else might begin to remove it as well.
        self._folder.cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(folder: Path) -> int:
    # It gets its name once it is locked, so nobody finds it before.
    nameless = folder / f"{_LOCK}.new"
    lock = os.open(nameless, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        nameless.rename(folder / _LOCK)
    except OSError:
        os.close(lock)
        raise
    return lock


def remove_left_folders() -> None:
    """Remove the folders of this user's servers that have ended without doing so.

    What cannot be removed is left, as is a folder without a lock: its server may be making it.
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
    try:
        lock = os.open(folder / _LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return  # its server lives
    finally:
        os.close(lock)
