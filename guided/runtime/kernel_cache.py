"""Where compiled kernels are stored on the disk, and when they are outdated.

Numba compiles a kernel again when the file that contains it changes. Our kernels inline parts of
other files and read constants of the modules they import, so they depend on all modules that
contain kernels and on what these import. The time of a file is ignored, so that kernels may be
copied with it.

An installation contains kernels for the processor that it was made on (``guided/kernels``, see
``setup.py``), which are read and never written. Other kernels are where numba keeps them. If
nothing may be written there, they are in a folder of this process, which is removed with it.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import (
    CacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
)

__all__ = [
    "INSTALLED",
    "KernelCache",
    "digest_of_sources",
    "install_cache_locators",
    "is_cache_shared",
]

INSTALLED = "kernels"
"""Folder of the package with the kernels that were installed with it, by package."""

_ROOT = Path(__file__).parent.parent
_PACKAGES = (
    *("decoding", "grammar/machine", "grammar/network", "json_schema/formulas"),
    *("json_schema/machine", "machine", "masks", "model/cpu", "regular", "runtime"),
)
"""Packages that contain kernels."""
_HOLDS_KERNELS = re.compile(r"^from (numba|guided\.[\w.]*kernel)\b", re.MULTILINE)
_IMPORTED = re.compile(r"^from guided\.([\w.]+) import", re.MULTILINE)


@cache
def digest_of_sources() -> bytes:
    """Return a digest that distinguishes these sources of kernels from those of other versions."""
    digest = hashlib.sha256()
    for file, text in sorted(_sources().items()):
        digest.update(f"{file.relative_to(_ROOT)}\0{text}".encode())
    return digest.digest()


def _sources() -> dict[Path, str]:
    """Return the modules that contain kernels, and those of ours that they import."""
    texts = {file: file.read_text("utf-8") for name in _PACKAGES for file in _files(name)}
    worklist = [file for file, text in texts.items() if _HOLDS_KERNELS.search(text)]
    found: dict[Path, str] = {}
    while worklist:
        file = worklist.pop()
        if file not in found:
            found[file] = texts.get(file) or file.read_text("utf-8")
            modules = _IMPORTED.findall(found[file])
            imported = (_ROOT / f"{module.replace('.', '/')}.py" for module in modules)
            worklist += (other for other in imported if other.exists())
    return found


def _files(package: str) -> Iterator[Path]:
    return (_ROOT / package).glob("*.py")


class _KernelIndex(IndexDataCacheFile):
    """The index of a kernel's compiled forms on the disk; forms of other sources are not read.

    Numba unpickles an index before it looks at the sources, and types that the index names may no
    longer exist. But it looks at the version first.
    """

    def __init__(self, folder: str, name: str, sources: object) -> None:
        super().__init__(folder, name, sources)  # type: ignore[no-untyped-call]
        self._version = f"{self._version} {sources!r}"


class KernelCache(FunctionCache):
    """The compiled forms of a kernel: the installed ones, and those compiled since."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        sources = self._impl.locator.get_source_stamp()
        self._cache_file = _KernelIndex(self._cache_path, self._impl.filename_base, sources)
        package = Path(function.__code__.co_filename).parent
        self._installed: Any = None
        if (_ROOT / INSTALLED).is_dir() and _ROOT in package.parents:
            folder = _ROOT / INSTALLED / package.relative_to(_ROOT)
            self._installed = _KernelIndex(
                str(folder), self._impl.filename_base, digest_of_sources()
            )

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a compiled form, preferably an installed one; ``None`` if there is none."""
        if self._installed is not None:
            key = self._index_key(sig, target_context.codegen())  # type: ignore[no-untyped-call]
            data = self._installed.load(key)
            if data is not None:
                return self._impl.rebuild(target_context, data)
        return super()._load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def is_on_disk(self, target_context: Any) -> bool:
        """Return whether some form of the kernel is stored for this processor and these sources."""
        processor = target_context.codegen().magic_tuple()
        return any(
            of_processor == processor
            for index in (self._installed, self._cache_file)
            if index is not None
            for _, of_processor, _ in index._load_index()
        )


@cache
def install_cache_locators() -> None:
    """Let numba compile kernels of this package again whenever any of their sources changes.

    Kernels of other packages are cached as before.
    """
    locators = CacheImpl._locator_classes
    CacheImpl._locator_classes = [
        *map(_locator_of_our_kernels, [*locators, _TemporaryFolderLocator]),
        *locators,
    ]


class _TemporaryFolderLocator(InTreeCacheLocator):
    """Stores kernels in a folder of this process, if numba finds no folder that it may write to.

    Without it no kernel could be imported then.
    """

    def get_cache_path(self) -> str:
        return _temporary_folder()


def is_cache_shared() -> bool:
    """Return whether other processes find the kernels that this one compiled."""
    return _temporary_folder.cache_info().currsize == 0


@cache
def _temporary_folder() -> str:
    folder = tempfile.mkdtemp(prefix="guided-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _locator_of_our_kernels(locator: Any) -> type[Any]:
    """Return a subclass of numba's locator for our kernels, which depend on all of our sources."""

    class OurLocator(locator):  # type: ignore[misc]
        @classmethod
        def from_function(cls, function: Callable[..., object], file: str) -> Any:
            is_ours = _ROOT in Path(file).parents
            return super().from_function(function, file) if is_ours else None

        def get_source_stamp(self) -> Any:
            return digest_of_sources()

    return OurLocator
