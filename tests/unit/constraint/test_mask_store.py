"""The store of masks: equal ones once, never more bytes than allowed, the unused ones go first."""

from __future__ import annotations

import pytest

from guided.constraint.held_mask import HeldMask
from guided.constraint.mask_store import MaskStore
from guided.tokens.mask import Mask, mask_of

_SIZE = 320
_BYTES = mask_of(_SIZE, []).nbytes


def _mask(*tokens: int) -> Mask:
    return mask_of(_SIZE, tokens)


def _keep(store: MaskStore, *tokens: int) -> HeldMask:
    """Hold a mask; its fingerprint is the least token."""
    held, _ = store.keep(_mask(*tokens), min(tokens, default=-1))
    return held


def test_equal_masks_are_stored_once() -> None:
    store = MaskStore(10 * _BYTES)
    first, again, other = _keep(store, 1, 2), _keep(store, 1, 2), _keep(store, 3)
    assert first is again
    assert first.mask is not other.mask
    assert store.nbytes == 2 * _BYTES


def test_masks_with_equal_fingerprints_are_told_apart() -> None:
    store = MaskStore(10 * _BYTES)
    first, other, again = _keep(store, 1), _keep(store, 1, 2), _keep(store, 1, 2)
    assert first.mask is not None
    assert first.mask.tolist() == _mask(1).tolist()
    assert other is again


def test_a_kept_mask_is_read_only() -> None:
    held = _keep(MaskStore(_BYTES), 1)
    assert held.mask is not None
    with pytest.raises(ValueError, match="read-only"):
        held.mask[0] = 1


def test_never_more_bytes_than_allowed_and_the_unused_go_first() -> None:
    store = MaskStore(3 * _BYTES)
    held = [_keep(store, number) for number in range(3)]
    held.append(_keep(store, 3))  # the first round finds all of them used, and marks them
    assert store.nbytes <= 3 * _BYTES
    survivors = [holder for holder in held if holder.mask is not None]
    survivors[0].used = True
    held.append(_keep(store, 4))
    assert survivors[0].mask is not None
    assert store.nbytes <= 3 * _BYTES


def test_a_mask_that_was_taken_away_is_kept_anew() -> None:
    store = MaskStore(2 * _BYTES)
    first = _keep(store, 1)
    others = [_keep(store, number) for number in range(2, 30)]
    assert first.mask is None
    assert _keep(store, 1).mask is not None
    assert others[-1].mask is not None
    assert store.nbytes <= 2 * _BYTES


def test_holders_that_nobody_has_are_forgotten_with_their_masks() -> None:
    store = MaskStore(1000 * _BYTES)
    kept = [_keep(store, number) for number in range(10)]
    for number in range(500):
        _keep(store, 10 + number % 50)
    assert len(store) < 40
    assert store.nbytes < 40 * _BYTES
    assert all(held.mask is not None for held in kept)


def test_the_lone_token_of_a_held_mask() -> None:
    store = MaskStore(9 * _BYTES)
    for tokens, lone in (((5,), 5), ((5, 6), None), ((), None)):
        held = _keep(store, *tokens)
        assert held.mask is not None
        assert held.lone(held.mask) == lone
        assert held.lone(held.mask) == lone
