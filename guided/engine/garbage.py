"""Keeps what engines are made of from garbage collection, and lets go of what is left of them.

To look through all of it would delay a step by some tenths of a second. An engine that nobody has
any more goes at once, by its reference counts; where it hangs together with something in a circle
it goes when ``free`` is called, or the next engine is loaded.
"""

from __future__ import annotations

import gc
from typing import Final
from weakref import WeakSet

from guided.model.runner import ModelRunner

__all__ = ["free", "freeze"]

_frozen: Final = WeakSet[ModelRunner]()
"""Those of the engines that there are: each has the weights, which are most of an engine."""


def freeze(runner: ModelRunner) -> None:
    """Exempt all objects that exist now from garbage collection, those of an engine among them.

    What loading has left is collected before: the collector may have been off.
    """
    # A fork finds it frozen: looking through what it shares would make a copy of all of it.
    if runner not in _frozen:
        free()
    gc.freeze()
    _frozen.add(runner)


def free() -> None:
    """Collect garbage, and what was frozen of engines that nobody has any more."""
    # Of frozen objects there are a million, most of them of libraries.
    if _frozen:
        gc.unfreeze()
    gc.collect()
