"""Which bytes the rows of tables distinguish: maps of bytes to classes, shared by all tables."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.dfa import DEAD

__all__ = ["ByteMaps", "shared_byte_maps"]

_ENOUGH: Final = 4096
"""Maps at which new tables get a new set, so that one schema's maps are not kept for ever."""

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
        # The results of the methods with similar names. Threads write without the lock, as all of
        # them would write the same.
        self._apart: dict[tuple[int, ...], int] = {}
        self._split: dict[tuple[int, tuple[int, ...]], int] = {}
        self._widths: dict[int, int] = {}
        self._splits_of_one: dict[int, NDArray[np.int32]] = {}
        self._lock = threading.Lock()
        """Held while a map is added."""

    def __len__(self) -> int:
        return self._count

    def number(self, byte_class: NDArray[np.uint8]) -> int:
        """Return the number of a map, uint8 ``[256]``."""
        return self._number(byte_class.tobytes())

    def numbers(self, byte_classes: NDArray[np.uint8]) -> list[int]:
        """Return the numbers of several, uint8 ``[maps, 256]``."""
        keys = byte_classes.tobytes()
        return [self._number(keys[begin : begin + 256]) for begin in range(0, len(keys), 256)]

    def _number(self, key: bytes) -> int:
        number = self._numbers.get(key)
        return self._added(key) if number is None else number

    def telling_apart(self, bytes_: tuple[int, ...]) -> int:
        """Return the map of these bytes to the classes from 1 on, and of all others to class 0.

        The classes are in the order of the bytes. Raises LimitExceededError for all 256.
        """
        number = self._apart.get(bytes_)
        if number is None:
            number = bytes_[0] if len(bytes_) == 1 else self._split_off(bytes(256), bytes_, 1)
            self._apart[bytes_] = number
        return number

    def splitting_off(self, under: int, bytes_: tuple[int, ...]) -> int:
        """Return the map ``under`` with each of these bytes in a new class, after its classes.

        The classes are in the order of the bytes. Raises LimitExceededError above 256 classes.
        """
        number = self._split.get((under, bytes_))
        if number is None:
            number = self._split_off(self.array[under].tobytes(), bytes_, self.width(under))
            self._split[under, bytes_] = number
            if len(bytes_) == 1:
                self.splitting_off_one(under)[bytes_[0]] = number
        return number

    def splitting_off_one(self, under: int) -> NDArray[np.int32]:
        """``splitting_off`` for single bytes, int32 ``[256]``; DEAD if not made yet."""
        splits = self._splits_of_one.get(under)
        if splits is None:
            # Another thread may have come first: both have to write into the same array.
            new = np.full(256, DEAD, dtype=np.int32)
            splits = self._splits_of_one.setdefault(under, new)
        return splits

    def width(self, number: int) -> int:
        """Return the number of classes of a map."""
        width = self._widths.get(number)
        if width is None:
            width = self._widths[number] = max(self.array[number].tobytes()) + 1
        return width

    def _split_off(self, byte_class: bytes, bytes_: tuple[int, ...], first: int) -> int:
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
        key = bytes(split)
        number = self._numbers.get(key)
        return self._added(key) if number is None else number

    def _added(self, key: bytes) -> int:
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

    Existing tables keep the maps that they began with, so a full set of maps is simply dropped.
    """
    global _shared
    if len(_shared) >= _ENOUGH:
        _shared = ByteMaps()
    return _shared
