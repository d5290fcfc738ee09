"""Exempts engines' objects from Python's garbage collection, and frees those of engines gone.

Scanning all of them would delay a step by some tenths of a second. An engine that nothing refers to
is freed at once, by its reference counts; if it is part of a reference cycle, ``collect_garbage``
frees it, or the loading of the next engine.
"""

from __future__ import annotations

import gc
from typing import Final
from weakref import WeakSet

from guided.model.runner import ModelRunner

__all__ = ["collect_garbage", "freeze_heap"]

_frozen_runners: Final = WeakSet[ModelRunner]()
"""The runners of all live engines. A runner holds the weights, most of an engine's memory."""


def freeze_heap(runner: ModelRunner) -> None:
    """Exempt all objects that exist now, including those of an engine, from garbage collection.

    Collects what loading left behind first, because the collector may have been off.
    """
    # A forked process inherits the frozen heap: scanning it would copy every shared page.
    if runner not in _frozen_runners:
        collect_garbage()
    gc.freeze()
    _frozen_runners.add(runner)


def collect_garbage() -> None:
    """Collect garbage, including frozen objects of engines that nothing refers to any more."""
    # There are a million frozen objects, most of them of libraries.
    if _frozen_runners:
        gc.unfreeze()
    gc.collect()
