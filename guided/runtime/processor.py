"""The processor that kernels are compiled for: this one, or the one ``NUMBA_CPU_NAME`` names.

Naming one lets a user or a test see what a lesser machine would do.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

__all__ = ["compile_for_named_processor", "named_processor"]

_config: Final[Any] = import_module("numba.core.config")
"""Numba creates its names when it is imported, so type checkers cannot know them."""


def named_processor() -> str | None:
    """Return LLVM's name of the processor that ``NUMBA_CPU_NAME`` names; ``None`` is this one."""
    found: str | None = _config.CPU_NAME
    return found


@cache
def compile_for_named_processor() -> None:
    """Let kernels use only what the named processor has; call it before any kernel is compiled.

    Numba would add everything that this machine has, unless ``NUMBA_CPU_FEATURES`` says what to
    add.
    """
    if named_processor() is not None and _config.CPU_FEATURES is None:
        _config.CPU_FEATURES = ""
