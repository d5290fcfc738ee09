"""The folder where fetched and converted models are kept, and what can go wrong in it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guided.errors import ModelError

__all__ = ["CACHE_VARIABLE", "cache_folder", "full_disk_error", "require_space", "writing_to"]

CACHE_VARIABLE = "GUIDED_CACHE"
"""Environment variable that names another cache folder."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    # A place that can hold no folder: below a file, or in a file system of the kernel's own.
    *(errno.ENOTDIR, errno.EEXIST, errno.ENOENT),
)
_MEGABYTE = 1_000_000


def cache_folder() -> Path:
    """``GUIDED_CACHE`` where it is set, else ``guided`` in the user's cache folder."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("guided", appauthor=False)


def require_space(folder: Path, needed: int) -> None:
    """Raise ``ModelError`` unless the disk of an existing folder has so many bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise full_disk_error(folder, needed, free)


def full_disk_error(folder: Path, needed: int, free: int | None = None) -> ModelError:
    """What to raise where the disk of the cache is full."""
    has = "" if free is None else f": {free // _MEGABYTE} MB are free"
    return ModelError(
        f"no space left in the model cache {folder}{has}, {needed // _MEGABYTE} MB are needed",
        hint=f"free some, or set {CACHE_VARIABLE} to a folder on a larger disk",
    )


@contextmanager
def writing_to(folder: Path, needed: int) -> Iterator[None]:
    """Turn a full disk, or a folder that must not be written to, into ``ModelError``."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise full_disk_error(folder, needed) from error
        if error.errno in _FORBIDDEN:
            raise ModelError(
                f"the model cache {folder} cannot be written to: {error.strerror}",
                hint=f"make it writable, or set {CACHE_VARIABLE} to another folder",
            ) from error
        raise
