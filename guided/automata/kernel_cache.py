"""When compiled kernels that lie on the disk are too old.

Numba compiles a kernel anew when the file changes that it stands in. Ours take parts of other files
in, and read constants of those they import: what they depend on is all modules that hold kernels,
and what these import. The time of a file says nothing, so that kernels may be copied with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import CacheImpl

__all__ = ["compile_again_with_sources", "digest_of_sources"]

_ROOT = Path(__file__).parent.parent
_PACKAGES = ("automata", "decoding", "grammar", "network", "recognizer", "tokens", "model/cpu")
"""Packages of kernels."""
_HOLDS_KERNELS = re.compile(r"^from (numba|guided\.[\w.]*kernel)\b", re.MULTILINE)
_IMPORTED = re.compile(r"^from guided\.([\w.]+) import", re.MULTILINE)


@cache
def digest_of_sources() -> bytes:
    """What tells the sources of kernels from those of another version."""
    digest = hashlib.sha256()
    for file, text in sorted(_sources().items()):
        digest.update(f"{file.relative_to(_ROOT)}\0{text}".encode())
    return digest.digest()


def _sources() -> dict[Path, str]:
    """The modules that hold kernels, and what these import of ours."""
    texts = {file: file.read_text("utf-8") for name in _PACKAGES for file in _files(name)}
    waiting = [file for file, text in texts.items() if _HOLDS_KERNELS.search(text)]
    found: dict[Path, str] = {}
    while waiting:
        file = waiting.pop()
        if file not in found:
            found[file] = texts.get(file) or file.read_text("utf-8")
            modules = _IMPORTED.findall(found[file])
            imported = (_ROOT / f"{module.replace('.', '/')}.py" for module in modules)
            waiting += (other for other in imported if other.exists())
    return found


def _files(package: str) -> Iterator[Path]:
    return (_ROOT / package).glob("*.py")


@cache
def compile_again_with_sources() -> None:
    """Have kernels of this package compiled anew whenever any of their sources is another one.

    Those of other packages are cached as before.
    """
    locators = CacheImpl._locator_classes
    CacheImpl._locator_classes = [*map(_of_ours, locators), *locators]


def _of_ours(locator: Any) -> type[Any]:
    """The locator of a cache, which says where kernels lie and what they depend on, for ours."""

    class Ours(locator):  # type: ignore[misc]
        @classmethod
        def from_function(cls, function: Callable[..., object], file: str) -> Any:
            is_ours = _ROOT in Path(file).parents
            return super().from_function(function, file) if is_ours else None

        def get_source_stamp(self) -> Any:
            return digest_of_sources()

    return Ours
