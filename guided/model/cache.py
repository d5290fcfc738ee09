"""The folder of fetched and converted models: each is made once, by whichever process is first."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from guided.errors import ModelError
from guided.model.progress import Progress

__all__ = [
    "CACHE_VARIABLE",
    "cache_folder",
    "full_disk_error",
    "make_once",
    "remove_all_but",
    "require_space",
    "writing_to",
]

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
    """Return ``GUIDED_CACHE`` if it is set, else ``guided`` in the user's cache folder."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("guided", appauthor=False)


def require_space(folder: Path, needed: int) -> None:
    """Raise ``ModelError`` unless the disk of an existing folder has ``needed`` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise full_disk_error(folder, needed, free)


def full_disk_error(folder: Path, needed: int, free: int | None = None) -> ModelError:
    """Return the error to raise if the disk of the cache is full."""
    has = "" if free is None else f": {free // _MEGABYTE} MB are free"
    return ModelError(
        f"no space left in the model cache {folder}{has}, {needed // _MEGABYTE} MB are needed",
        hint=f"free some, or set {CACHE_VARIABLE} to a folder on a larger disk",
    )


@contextmanager
def writing_to(folder: Path, needed: int) -> Iterator[None]:
    """Turn a full disk, or a folder without write permission, into ``ModelError``."""
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


def make_once(
    name: str,
    make: Callable[[Path], Path],
    *,
    what: str,
    space_needed: int,
    progress: Progress,
) -> Path:
    """Return the folder ``models/name`` of the cache, and make it if it is missing.

    ``make`` takes a work folder, which survives an interruption with its contents, and returns the
    finished folder inside it; that is then renamed into place, so a half-done one is never used.
    One process makes it while others wait; ``what`` names for users what they wait for.
    """
    cache = cache_folder() / "models"
    finished = cache / name
    if finished.is_dir():
        return finished
    with writing_to(cache, space_needed):
        cache.mkdir(parents=True, exist_ok=True)
        with _sole_maker(cache / f"{name}.lock", what, progress):
            if not finished.is_dir():
                work = cache / f"{name}.part"
                work.mkdir(exist_ok=True)
                make(work).replace(finished)
                shutil.rmtree(work)
    return finished


def remove_all_but(folder: Path, kept: tuple[Path, ...] = ()) -> None:
    """Delete what an interrupted run left, except for files that are complete."""
    for leftover in folder.iterdir():
        if leftover not in kept:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


@contextmanager
def _sole_maker(lock_file: Path, what: str, progress: Progress) -> Iterator[None]:
    """Hold a lock between processes, and report waiting for it."""
    from filelock import FileLock, Timeout

    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with progress.step(f"waiting for another process to make {what} ready"):
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
