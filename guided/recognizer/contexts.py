"""Where in the nest of containers a recogniser stands: frames hash-consed to small ints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError

__all__ = [
    "KNOWN",
    "NONE",
    "NO_KEYS",
    "ROOT",
    "UNKNOWN",
    "UNKNOWN_KEYS",
    "ArrayFrame",
    "Contexts",
    "Frame",
    "ObjectFrame",
]

ROOT = 0
"""The context of the whole document."""
NO_KEYS = 0
UNKNOWN_KEYS = -1
"""Some free keys were written, and a walk over many tokens at once does not know which."""

NONE, KNOWN, UNKNOWN = 0, 1, 2
"""What a context knows of the free keys that its object already has."""


@dataclass(frozen=True, slots=True)
class ObjectFrame:
    """An open object."""

    shape: int
    index: int
    """The last named property written, -1 before the first; past the last among free members."""
    extras: int
    """Free members so far, as far as their number matters."""
    keys: int
    """The set of free keys so far."""


@dataclass(frozen=True, slots=True)
class ArrayFrame:
    """An open array."""

    shape: int
    count: int
    """Items completed, as far as their number matters."""


Frame: TypeAlias = ObjectFrame | ArrayFrame | None


class Contexts:
    """Interns stacks of frames and sets of free keys; equal stacks have equal numbers."""

    def __init__(self, max_contexts: int) -> None:
        self.max_contexts = max_contexts
        self.frames: list[Frame] = [None]
        self.parents: list[int] = [ROOT]
        self.key_knowledge: NDArray[np.int8] = np.zeros(256, dtype=np.int8)
        self._numbers: dict[tuple[Frame, int], int] = {}
        self._key_sets: list[tuple[int, bytes]] = [(NO_KEYS, b"")]
        self._key_numbers: dict[tuple[int, bytes], int] = {}

    def __len__(self) -> int:
        return len(self.frames)

    def enter(self, frame: ObjectFrame | ArrayFrame, parent: int) -> int:
        """The context of ``frame`` inside ``parent``; raises LimitExceededError when full."""
        number = self._numbers.get((frame, parent))
        if number is None:
            if len(self.frames) >= self.max_contexts:
                raise LimitExceededError(
                    f"the recogniser needs more than {self.max_contexts} contexts",
                    limit=self.max_contexts,
                    field="constraint",
                )
            number = len(self.frames)
            self._numbers[frame, parent] = number
            self.frames.append(frame)
            self.parents.append(parent)
            if number >= len(self.key_knowledge):
                self.key_knowledge = np.concatenate([self.key_knowledge] * 2)
            self.key_knowledge[number] = _key_knowledge(frame)
        return number

    def with_key(self, keys: int, key: bytes) -> int:
        """The set ``keys`` with one more key."""
        number = self._key_numbers.setdefault((keys, key), len(self._key_sets))
        if number == len(self._key_sets):
            self._key_sets.append((keys, key))
        return number

    def keys(self, keys: int) -> Iterator[bytes]:
        """The keys of a set, the latest first; none are known of an unknown one."""
        while keys not in (NO_KEYS, UNKNOWN_KEYS):
            keys, key = self._key_sets[keys]
            yield key


def _key_knowledge(frame: ObjectFrame | ArrayFrame) -> int:
    if isinstance(frame, ArrayFrame) or frame.keys == NO_KEYS:
        return NONE
    return UNKNOWN if frame.keys == UNKNOWN_KEYS else KNOWN
