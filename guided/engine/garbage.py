"""Exempts the objects of engines from garbage collection, and frees those of engines that are gone.

Scanning all of them would delay a step by some tenths of a second. An engine that nothing refers to
is freed at once, by its reference counts; if it is part of a reference cycle, ``free`` frees it,
or the loading of the next engine.
"""

from __future__ import annotations

import gc
from typing import Final
from weakref import WeakSet

from guided.model.runner import ModelRunner

__all__ = ["free", "freeze"]

_frozen: Final = WeakSet[ModelRunner]()
"""The runners of all live engines. A runner holds the weights, most of an engine's memory."""


def freeze(runner: ModelRunner) -> None:
    """Exempt all objects that exist now, including those of an engine, from garbage collection.

    Collects what loading left behind first, because the collector may have been off.
    """
    # A forked process inherits the frozen heap: scanning it would copy every shared page.
    if runner not in _frozen:
        free()
    gc.freeze()
    _frozen.add(runner)


def free() -> None:
    """Collect garbage, including frozen objects of engines that nothing refers to any more."""
    # There are a million frozen objects, most of them of libraries.
    if _frozen:
        gc.unfreeze()
    gc.collect()
