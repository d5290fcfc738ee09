"""Masks kept by their difference from others are always the masks that were given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.masks.mask import Mask, mask_of, only_token
from guided.masks.mask_delta import MaskDelta, changes_from, delta_of

_WORDS = 12
_words = st.lists(st.sampled_from([0, 1, -1, -(2**31), 2**31 - 1]) | st.integers(0, 7), min_size=1)


def _mask(words: list[int]) -> Mask:
    return np.array((words * _WORDS)[:_WORDS], dtype=np.int32)


def _delta(mask: Mask, base: Mask) -> MaskDelta:
    base.flags.writeable = False
    changes = changes_from(mask, base, np.empty((_WORDS, 2), dtype=np.int32))
    return delta_of(mask, base, changes)


@given(_words, _words)
def test_what_is_kept_is_the_mask(words: list[int], base: list[int]) -> None:
    mask = _mask(words)
    delta = _delta(mask, _mask(base))
    out = np.full(_WORDS, 99, dtype=np.int32)
    delta.fill(out)
    assert out.tolist() == delta.mask().tolist() == mask.tolist()
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    assert [delta.allows(token) for token in range(32 * _WORDS)] == bits.astype(bool).tolist()
    assert delta.only_token() == only_token(mask)
    assert delta.only_token() == only_token(mask)


@pytest.mark.parametrize(("tokens", "lone"), [((5,), 5), ((5, 6), None), ((), None)])
def test_the_lone_token_is_kept(tokens: tuple[int, ...], lone: int | None) -> None:
    delta = _delta(mask_of(32 * _WORDS, tokens), mask_of(32 * _WORDS, [7]))
    assert delta.only_token() == lone
    assert delta.only_token() == lone


@pytest.mark.parametrize(("changed", "is_whole"), [(0, False), (1, False), (3, False), (4, True)])
def test_a_mask_far_from_its_base_is_kept_whole(changed: int, is_whole: bool) -> None:
    base = mask_of(32 * _WORDS, [5])
    mask = base.copy()
    mask[-changed or _WORDS :] ^= 6
    delta = _delta(mask, base)
    assert (delta.base is not base) == is_whole
    assert len(delta.changes) == (0 if is_whole else changed)


def test_memory_of_another_size_is_refused() -> None:
    delta = _delta(mask_of(32 * _WORDS, [5]), mask_of(32 * _WORDS, []))
    for words in (_WORDS - 1, _WORDS + 1):
        with pytest.raises(ValueError, match="does not fit"):
            delta.fill(np.zeros(words, dtype=np.int32))
    for token in (-1, 32 * _WORDS):
        with pytest.raises(IndexError, match="token"):
            delta.allows(token)
