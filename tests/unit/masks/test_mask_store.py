"""The store of masks: equal ones once, never more bytes than allowed, the unused ones go first."""

from __future__ import annotations

import numpy as np

from guided.masks.held_mask import HeldMask
from guided.masks.mask import Mask, mask_of
from guided.masks.mask_store import MaskStore

_SIZE = 320
_NOTHING = mask_of(_SIZE, [])
_NOTHING.flags.writeable = False


def _mask(*tokens: int) -> Mask:
    return mask_of(_SIZE, tokens)


def _keep(store: MaskStore, *tokens: int) -> HeldMask:
    held, _ = store.keep(_mask(*tokens), _NOTHING)
    store.check()
    return held


def _of_one() -> int:
    """The bytes of one mask of one token, and of its base."""
    store = MaskStore(2**20)
    held = [_keep(store, 1)]
    first = store.nbytes
    held.append(_keep(store, 2))
    assert store.nbytes < 2 * first
    return store.nbytes - first


_BYTES = _of_one()


def test_equal_masks_are_stored_once() -> None:
    store = MaskStore(2**20)
    first, again, other = _keep(store, 1, 2), _keep(store, 1, 2), _keep(store, 3)
    assert first is again
    assert first.delta is not other.delta
    assert store.nbytes == 2 * _BYTES + _NOTHING.nbytes


def test_masks_that_differ_in_one_token_or_in_their_base_are_told_apart() -> None:
    store = MaskStore(2**20)
    full = _mask(*range(_SIZE))
    full.flags.writeable = False
    for found in (_mask(1), _mask(1, 2), _mask(*range(5, _SIZE)), _mask(*range(6, _SIZE))):
        for base in (_NOTHING, full):
            assert store.keep(found, base)[1].mask().tolist() == found.tolist()


def test_a_kept_mask_stays_as_it_was_found() -> None:
    for tokens in ((1,), range(_SIZE)):  # as changes, and whole
        found = _mask(*tokens)
        held, delta = MaskStore(2**20).keep(found, _NOTHING)
        found[:] = 7
        assert held.delta is delta
        assert delta.mask().tolist() == _mask(*tokens).tolist()


def test_never_more_bytes_than_allowed_and_the_unused_go_first() -> None:
    store = MaskStore(3 * _BYTES + _NOTHING.nbytes)
    held = [_keep(store, number) for number in range(3)]
    held.append(_keep(store, 3))  # the first round finds all of them used, and marks them
    assert store.nbytes <= store.max_bytes
    survivors = [holder for holder in held if holder.delta is not None]
    survivors[0].used = True
    held.append(_keep(store, 4))
    assert survivors[0].delta is not None
    assert store.nbytes <= store.max_bytes


def test_a_mask_that_was_taken_away_is_kept_anew() -> None:
    store = MaskStore(2 * _BYTES + _NOTHING.nbytes)
    first = _keep(store, 1)
    others = [_keep(store, number) for number in range(2, 30)]
    assert first.delta is None
    assert _keep(store, 1).delta is not None
    assert others[-1].delta is not None
    assert store.nbytes <= store.max_bytes


def test_holders_that_nobody_has_are_forgotten_with_their_masks() -> None:
    store = MaskStore(2**20)
    kept = [_keep(store, number) for number in range(10)]
    for number in range(500):
        _keep(store, 10 + number % 50)
    assert len(store._entries) < 40
    assert store.nbytes < 40 * _BYTES
    assert all(held.delta is not None for held in kept)


def test_a_base_counts_once_and_as_long_as_a_mask_is_kept_by_it() -> None:
    store = MaskStore(2**20)
    bases = [_mask(*range(number, _SIZE)) for number in range(2)]
    for base in bases:
        base.flags.writeable = False
    held = [store.keep(_mask(*range(3, _SIZE)), bases[0])]
    held.append(store.keep(_mask(*range(4, _SIZE)), bases[0]))
    assert store.nbytes == 2 * _BYTES + bases[0].nbytes
    held.append(store.keep(_mask(*range(5, _SIZE)), bases[1]))
    assert store.nbytes == 3 * _BYTES + 2 * bases[0].nbytes
    del held[:2]
    for number in range(6, 12):  # keeping these finds those that are gone
        held.append(store.keep(_mask(*range(number, _SIZE)), bases[1]))
        store.check()
    assert store.nbytes == len(held) * _BYTES + bases[1].nbytes


def test_a_mask_equal_to_its_base_is_stored_once() -> None:
    store = MaskStore(2**20)
    first, again = _keep(store), _keep(store)
    assert first is again
    assert first.delta is not None


def test_masks_with_the_same_hash_are_told_apart() -> None:
    store = MaskStore(2**20)
    first = _keep(store, 1)
    (entry,) = store._entries.values()
    store._entries.clear()
    of_token_2 = np.array([[0, 1 << 2]], dtype=np.int32)
    key = id(_NOTHING), hash(of_token_2.tobytes())
    store._entries[key], store._clock[0] = entry, key
    other = _keep(store, 2)
    assert other.delta is not None
    assert other.delta.mask().tolist() == _mask(2).tolist()
    assert first.delta is None, "the store has emptied it, as it may at any time"
