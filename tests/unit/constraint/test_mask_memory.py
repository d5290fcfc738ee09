"""Memory of masks: used again when a mask and all views of it are gone, and not before."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from guided.constraint.mask_memory import MaskMemory

_WORDS = 10


def test_masks_that_are_held_share_nothing() -> None:
    memory = MaskMemory(_WORDS)
    masks = [memory.take() for _ in range(5)]
    for number, mask in enumerate(masks):
        mask[:] = number
    assert [mask.tolist() for mask in masks] == [[number] * _WORDS for number in range(5)]


def test_room_is_lent_again_when_the_mask_is_gone() -> None:
    memory = MaskMemory(_WORDS)
    mask = memory.take()
    address = mask.ctypes.data
    assert memory.free == 0
    del mask
    assert memory.free == 1
    assert memory.take().ctypes.data == address


def test_a_view_keeps_the_room_of_its_mask() -> None:
    memory = MaskMemory(_WORDS)
    view = memory.take().view(np.uint32)[2:]
    view[:] = 7
    other = memory.take()
    other[:] = 0
    assert memory.free == 0
    assert view.tolist() == [7] * (_WORDS - 2)


def test_masks_outlive_their_memory() -> None:
    mask = MaskMemory(_WORDS).take()
    mask[:] = 3
    assert mask.tolist() == [3] * _WORDS


def test_more_masks_than_are_asked_for_at_once() -> None:
    words = 2**20
    memory = MaskMemory(words)
    masks = [memory.take() for _ in range(6)]
    for number, mask in enumerate(masks):
        mask[:] = number
    assert [int(mask[0]) for mask in masks] == list(range(6))
    assert len({mask.ctypes.data for mask in masks}) == 6


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="nobody asks for large pages")
def test_a_kernel_without_large_pages_gives_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 10**6)  # advice that every kernel refuses
    mask = MaskMemory(_WORDS).take()
    mask[:] = 3
    assert mask.tolist() == [3] * _WORDS
