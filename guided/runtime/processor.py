"""The processor that kernels are compiled for: this one, or one that ``NUMBA_CPU_NAME`` names.

So that a user or a test may see what a lesser machine would do.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

__all__ = ["compile_for_named_processor", "named_processor"]

_config: Final[Any] = import_module("numba.core.config")
"""Whose names numba makes when it is imported."""


def named_processor() -> str | None:
    """The processor that ``NUMBA_CPU_NAME`` names, by LLVM's name; ``None`` is this one."""
    found: str | None = _config.CPU_NAME
    return found


@cache
def compile_for_named_processor() -> None:
    """Let kernels use what the processor named has, and nothing else; before any is compiled.

    Numba would add all that this machine has, unless ``NUMBA_CPU_FEATURES`` says what to add.
    """
    if named_processor() is not None and _config.CPU_FEATURES is None:
        _config.CPU_FEATURES = ""
