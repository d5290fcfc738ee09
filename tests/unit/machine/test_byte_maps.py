"""Maps of bytes to classes, which tables share."""

from __future__ import annotations

import numpy as np
import pytest

from guided.errors import LimitExceededError
from guided.machine import byte_maps
from guided.machine.byte_maps import ByteMaps, shared_byte_maps
from guided.regular.dfa import DEAD


def _classes(maps: ByteMaps, number: int) -> dict[int, int]:
    return {byte: int(found) for byte, found in enumerate(maps.array[number]) if found}


def test_single_bytes_have_their_own_number() -> None:
    maps = ByteMaps()
    assert maps.distinguish((65,)) == 65
    assert _classes(maps, 65) == {65: 1}
    assert maps.width(65) == 2


def test_bytes_told_apart_have_classes_in_their_order() -> None:
    maps = ByteMaps()
    number = maps.distinguish((66, 65))
    assert _classes(maps, number) == {66: 1, 65: 2}
    assert maps.distinguish((66, 65)) == number
    assert maps.number(maps.array[number]) == number


def test_split_bytes_have_classes_behind_those_there_are() -> None:
    maps = ByteMaps()
    under = maps.distinguish((65, 66))
    assert _classes(maps, maps.add_classes(under, (67, 66))) == {65: 1, 67: 3, 66: 4}
    assert maps.single_byte_splits(under)[67] == DEAD
    number = maps.add_classes(under, (67,))
    assert maps.single_byte_splits(under)[67] == number


def test_more_maps_than_there_was_room_for() -> None:
    maps = ByteMaps()
    first = maps.distinguish((1, 2))
    pairs = [(low, high) for low in range(64) for high in range(64, 96)]
    numbers = [maps.distinguish(pair) for pair in pairs]
    assert len({first, *numbers}) == len(pairs) + 1
    assert [_classes(maps, number) for number in numbers] == [
        {low: 1, high: 2} for low, high in pairs
    ]
    assert _classes(maps, first) == {1: 1, 2: 2}


def test_more_classes_than_bytes_are_refused() -> None:
    maps = ByteMaps()
    under = maps.number(np.arange(256, dtype=np.uint8))
    with pytest.raises(LimitExceededError, match="256 classes"):
        maps.add_classes(under, (65,))


def test_tables_share_maps_until_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_maps, "_shared", ByteMaps())
    shared = shared_byte_maps()
    assert shared_byte_maps() is shared
    for number in range(4096):
        shared.number(np.frombuffer(number.to_bytes(256), dtype=np.uint8))
    assert shared_byte_maps() is not shared
