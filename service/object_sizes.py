"""Estimates how much memory a request takes with all its parts.

A few bytes of a message may become an object of some hundred bytes, and a text with one emoji takes
four bytes per character.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Final

__all__ = ["memory_of"]

_SMALL: Final = frozenset({type(None), bool, int, float})
_NUMBER_BYTES: Final = 32
"""Size counted for a number, which is not measured."""


def memory_of(value: object) -> int:
    """Return the bytes of a value made of texts, numbers, lists, mappings, dataclasses and structs.

    Shared parts count in each place, so the result is never below the memory taken.
    """
    total, waiting = 0, [value]
    while waiting:
        each: Any = waiting.pop()
        kind = type(each)
        if kind in _SMALL:
            total += _NUMBER_BYTES
            continue
        total += sys.getsizeof(each)
        if kind is str or kind is bytes:
            continue
        if isinstance(each, tuple | list | set | frozenset):
            waiting.extend(each)
        elif isinstance(each, Mapping):
            waiting.extend(each.keys())
            waiting.extend(each.values())
        elif (parts := _parts_of(each.__class__)) is not None:
            waiting.extend(parts(each))
    return total


@cache
def _parts_of(kind: Any) -> Callable[[Any], tuple[Any, ...]] | None:
    """Return a getter of the parts of objects of this type, or ``None`` if they have none."""
    if is_dataclass(kind):
        names = tuple(each.name for each in fields(kind))
    else:
        names = tuple(getattr(kind, "__struct_fields__", ()))
    if not names or issubclass(kind, Enum):
        return None
    found = attrgetter(*names)
    return (lambda each: (found(each),)) if len(names) == 1 else found
