"""Makes sliding windows small for a while, so that a short text is longer than each of them.

Whether a window of 4,096 tokens is respected shows only in longer texts, and such a text takes a
large model a minute. A model reads the size of its windows from its config and from attributes of
its layers, where they can be set::

    config.sliding_window       4096 ─▶ 3          masks of its own, and its own cache
    layer.sliding_window        4096 ─▶ 3          the argument of the attention interface
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["SMALLEST", "large_windows", "small_windows"]

SMALLEST = 3
"""Tokens of the smallest window; each other one is a token wider."""
_NAME = "sliding_window"
_NO_WINDOWS = ("max_window_layers", "sliding_window_pattern")
"""Settings that count layers, and not tokens."""


@contextmanager
def small_windows(module: PreTrainedModel, limit: int) -> Iterator[Mapping[int, int]]:
    """Make windows small for the block; yield the real size of each by its small one.

    Windows of ``limit`` tokens or more are left as they are: no text is longer.
    """
    places = [place for place in _places(module) if _is_window(place.get(_NAME), limit)]
    sizes = sorted({place[_NAME] for place in places})
    small = {size: SMALLEST + number for number, size in enumerate(sizes)}
    real = [place[_NAME] for place in places]
    for place, size in zip(places, real, strict=True):
        place[_NAME] = small[size]
    try:
        yield {few: size for size, few in small.items()}
    finally:
        for place, size in zip(places, real, strict=True):
            place[_NAME] = size


def large_windows(config: object, tried: int, limit: int) -> Mapping[str, int]:
    """Return settings that may be windows by another name, which a short trial cannot try.

    They are longer than the ``tried`` tokens of a trial, and shorter than a text of ``limit``.
    """
    return {
        name: size
        for name, size in vars(config).items()
        if "window" in name
        and name not in (_NAME, *_NO_WINDOWS)
        and isinstance(size, int)
        and tried <= size < limit
    }


def _places(module: PreTrainedModel) -> list[dict[str, Any]]:
    """Return the attributes of every layer and of every config of a model, each once."""
    found: dict[int, dict[str, Any]] = {}
    for part in module.modules():
        for owner in (part, getattr(part, "config", None)):
            if owner is not None and hasattr(owner, "__dict__"):
                found[id(owner)] = vars(owner)
    return list(found.values())


def _is_window(size: object, limit: int) -> bool:
    """Whether a setting is a size that matters; 0 means no window."""
    return type(size) is int and 0 < size < limit
