"""The engines that are compared, by name; a module is imported when its engine is named.

Nothing else is imported here, as the programs settle the number of threads before numpy is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.peers.adapter import Adapter

__all__ = ["ENGINES", "engine"]

ENGINES: Final = {
    "guided": ("guided", "Guided"),
    "guided_any": ("guided", "GuidedAny"),
    "guided_format": ("guided", "GuidedFormat"),
    "llguidance": ("llguidance", "Llguidance"),
    "xgrammar": ("xgrammar", "Xgrammar"),
}
"""Module and class of each engine."""


def engine(name: str, *, compact: bool = False) -> Adapter:
    """Return the adapter of an engine, not built yet."""
    module, kind = ENGINES[name]
    adapter: Adapter = getattr(import_module(f"{__name__}.{module}"), kind)(compact)
    return adapter
