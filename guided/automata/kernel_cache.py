"""When compiled kernels that lie on the disk are too old.

Numba compiles a kernel anew when the file changes that it stands in. Ours take parts of other files
in, and read tables that those lay out: so what they depend on is all that is compiled here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import CacheImpl

__all__ = ["compile_again_with_sources"]

_ROOT = Path(__file__).parent.parent
_SOURCES = ("automata", "network", "recognizer", "tokens", "model/cpu")
"""Packages of kernels, and of what they are made of."""


@cache
def digest_of_sources() -> bytes:
    """What tells the sources of kernels from those of another version."""
    digest = hashlib.sha256()
    for package in _SOURCES:
        for file in sorted((_ROOT / package).glob("*.py")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.digest()


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
            return super().get_source_stamp(), digest_of_sources()

    return Ours
