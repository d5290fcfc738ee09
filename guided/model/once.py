"""Folders of the cache that are made once, whoever asks for them first."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from guided.model.cache import cache_folder, writing_to
from guided.model.progress import Progress

__all__ = ["made_once", "remove_all_but"]


def made_once(
    name: str,
    make: Callable[[Path], Path],
    *,
    what: str,
    space_needed: int,
    progress: Progress,
) -> Path:
    """The folder ``models/name`` of the cache, made where it is missing.

    ``make`` is given a work folder, which survives an interruption with what was left in it, and
    returns the finished folder inside of it; that is then renamed into place, so a half-done one is
    never used. One process makes it while others wait; ``what`` they wait for is said.
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
    """Throw away what an interrupted run left, except for files that are whole."""
    for leftover in folder.iterdir():
        if leftover not in kept:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


@contextmanager
def _sole_maker(lock_file: Path, what: str, progress: Progress) -> Iterator[None]:
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
