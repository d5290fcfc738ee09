"""Which bytes the rows of tables distinguish: maps of bytes to classes, shared by all tables."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.dfa import DEAD

__all__ = ["ByteMaps", "shared_byte_maps"]

_MAX_SHARED_MAPS: Final = 4096
"""With so many maps, new tables get a new set, so that one schema's maps are not kept for ever."""

_MAX_CLASSES: Final = 256
"""A class is a byte."""


class ByteMaps:
    """Numbered maps of bytes to classes; only grows, and is safe to use from several threads.

    ``array`` is uint8 ``[maps, 256]``, with room for more; when it is full, a larger copy replaces
    it. A map and its number never change. Map ``b`` below 256 distinguishes the byte ``b`` from
    all others. Schemas need the same few maps again and again: the bytes after a value, the letters
    with which names continue.
    """

    def __init__(self) -> None:
        self.array: NDArray[np.uint8] = np.zeros((1024, 256), dtype=np.uint8)
        np.fill_diagonal(self.array[:256], 1)
        self._count = 256
        self._numbers: dict[bytes, int] = {}
        """The number of each map by its 256 bytes. The first 256 maps need not be in it: ``number``
        may give one of these another number, which means the same."""
        # Caches of ``distinguish``, ``add_classes``, ``width`` and ``single_byte_splits``. Threads
        # write without the lock, as all of them would write the same.
        self._by_distinguished: dict[tuple[int, ...], int] = {}
        self._by_added_classes: dict[tuple[int, tuple[int, ...]], int] = {}
        self._widths: dict[int, int] = {}
        self._single_byte_splits: dict[int, NDArray[np.int32]] = {}
        self._lock = threading.Lock()
        """Held while a map is added."""

    def __len__(self) -> int:
        return self._count

    def number(self, byte_class: NDArray[np.uint8]) -> int:
        """Return the number of a map, uint8 ``[256]``; a new map is added."""
        return self._number(byte_class.tobytes())

    def numbers(self, byte_classes: NDArray[np.uint8]) -> list[int]:
        """Return the numbers of several, uint8 ``[maps, 256]``."""
        keys = byte_classes.tobytes()
        return [self._number(keys[begin : begin + 256]) for begin in range(0, len(keys), 256)]

    def _number(self, key: bytes) -> int:
        number = self._numbers.get(key)
        return self._add(key) if number is None else number

    def distinguish(self, bytes_: tuple[int, ...]) -> int:
        """Return the number of the map of these bytes, all different, to classes from 1 on.

        All others are in class 0. The classes are in the order of the bytes. Raises
        LimitExceededError for all 256.
        """
        number = self._by_distinguished.get(bytes_)
        if number is None:
            number = bytes_[0] if len(bytes_) == 1 else self._assign_classes(bytes(256), bytes_, 1)
            self._by_distinguished[bytes_] = number
        return number

    def add_classes(self, base: int, bytes_: tuple[int, ...]) -> int:
        """Return the number of the map that equals map ``base`` except for ``bytes_``.

        Each of these gets a new class, after the classes of ``base`` and in the order of the bytes.
        A single byte is also entered in ``single_byte_splits``, which kernels read. Raises
        LimitExceededError above 256 classes.
        """
        number = self._by_added_classes.get((base, bytes_))
        if number is None:
            number = self._assign_classes(self.array[base].tobytes(), bytes_, self.width(base))
            self._by_added_classes[base, bytes_] = number
            if len(bytes_) == 1:
                self.single_byte_splits(base)[bytes_[0]] = number
        return number

    def single_byte_splits(self, base: int) -> NDArray[np.int32]:
        """Return, by byte, what ``add_classes`` returned for it alone, DEAD if not yet asked for.

        int32 ``[256]``.
        """
        splits = self._single_byte_splits.get(base)
        if splits is None:
            # Another thread may have come first: both have to write into the same array.
            new = np.full(256, DEAD, dtype=np.int32)
            splits = self._single_byte_splits.setdefault(base, new)
        return splits

    def width(self, number: int) -> int:
        """Return the number of classes of a map."""
        width = self._widths.get(number)
        if width is None:
            width = self._widths[number] = max(self.array[number].tobytes()) + 1
        return width

    def _assign_classes(self, byte_class: bytes, bytes_: tuple[int, ...], first: int) -> int:
        """Return the number of a map whose ``bytes_`` have the classes from ``first`` on, in order.

        Raises LimitExceededError if a class would not fit into a byte.
        """
        if first + len(bytes_) > _MAX_CLASSES:
            raise LimitExceededError(
                f"a place where more than {_MAX_CLASSES} classes of bytes have to be told apart",
                limit=_MAX_CLASSES,
                field="constraint",
                hint="let fewer names begin alike, or let a pattern tell fewer characters apart",
            )
        split = bytearray(byte_class)
        for place, byte in enumerate(bytes_):
            split[byte] = first + place
        return self._number(bytes(split))

    def _add(self, key: bytes) -> int:
        """Return the number of a map, given as its 256 bytes; adds it if it is not there.

        A map is written before ``_count`` and ``_numbers`` refer to it, and a full array is copied,
        not resized in place: readers take no lock.
        """
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                number = self._count
                if number == len(self.array):
                    grown = np.empty((2 * number, 256), dtype=np.uint8)
                    grown[:number] = self.array
                    self.array = grown
                self.array[number] = np.frombuffer(key, dtype=np.uint8)
                self._count += 1
                # Last, as other threads look up numbers without the lock: whoever finds one here
                # must find its map in the array too.
                self._numbers[key] = number
        return number


_shared = ByteMaps()


def shared_byte_maps() -> ByteMaps:
    """Return the maps for a new table.

    Existing tables keep the maps that they began with, so a full set of maps is dropped. There is
    no lock: two threads may each begin a new set, which costs only memory.
    """
    global _shared
    if len(_shared) >= _MAX_SHARED_MAPS:
        _shared = ByteMaps()
    return _shared
