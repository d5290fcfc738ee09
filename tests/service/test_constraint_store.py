"""Kept constraints: by salt and within bounds; the greediest salt's unused ones go first."""

from __future__ import annotations

import asyncio

import pytest

from guided.errors import LimitExceededError, UnknownConstraintError
from guided.spec import (
    CheckedConstraint,
    CompileCost,
    GenerationRequest,
    Regex,
    SchemaReport,
    Stored,
    Structure,
)
from guided.wire_request import encode_constraint
from guided_service.constraint_store import ConstraintStore
from guided_service.intake import Readers

READERS = Readers()
COST = CompileCost(0.5, 7, 700)


def put(store: ConstraintStore, salt: str, pattern: str) -> str:
    constraint: Structure = Regex(pattern)
    found = CheckedConstraint(constraint.digest(), SchemaReport((), ""), COST)
    message = encode_constraint(constraint).SerializeToString()
    return store.put(salt, message, found).constraint_id


def ids(store: ConstraintStore, salt: str) -> list[str]:
    return [info.constraint_id for info in store.listed(salt)]


def test_what_is_kept_is_found_under_its_digest_and_its_salt_alone() -> None:
    store = ConstraintStore(9, 10**6)
    name = put(store, "mine", "a+")
    assert name == Regex("a+").digest()
    request = GenerationRequest("x", Stored(name), cache_salt="mine")
    resolved, nbytes = asyncio.run(store.resolved(request, READERS))
    assert resolved.constraint == Regex("a+")
    assert nbytes == len(encode_constraint(Regex("a+")).SerializeToString())
    for salt in ("", "yours"):
        other = GenerationRequest("x", Stored(name), cache_salt=salt)
        with pytest.raises(UnknownConstraintError, match="there is no stored constraint 'regex:"):
            asyncio.run(store.resolved(other, READERS))
        with pytest.raises(UnknownConstraintError):
            store.delete(salt, name)
        assert ids(store, salt) == []
    assert ids(store, "mine") == [name]


def test_a_request_that_names_none_is_left_as_it_is() -> None:
    request = GenerationRequest("x", Regex("b"))
    assert asyncio.run(ConstraintStore(1, 10**6).resolved(request, READERS)) == (request, 0)


def test_what_is_deleted_is_gone_and_its_room_free() -> None:
    store = ConstraintStore(9, 10**6)
    name = put(store, "", "a+")
    store.delete("", name)
    assert (len(store), store.nbytes, ids(store, "")) == (0, 0, [])
    with pytest.raises(UnknownConstraintError, match="compile it again"):
        store.message("", name)


def test_the_one_goes_that_was_not_used_for_longest() -> None:
    store = ConstraintStore(3, 10**6)
    first, second, third = (put(store, "", pattern) for pattern in ("a", "b", "c"))
    store.message("", first)
    fourth = put(store, "", "d")
    assert ids(store, "") == [third, first, fourth]
    assert second not in ids(store, "")
    assert [info.uses for info in store.listed("")] == [0, 1, 0]


def test_what_is_compiled_again_stays_with_its_uses() -> None:
    store = ConstraintStore(2, 10**6)
    first, second = (put(store, "", pattern) for pattern in ("a", "b"))
    store.message("", first)
    nbytes = store.nbytes
    assert put(store, "", "a") == first
    assert ids(store, "") == [second, first]
    assert store.listed("")[1].uses == 1
    assert store.nbytes == nbytes


def test_a_salt_that_keeps_much_pushes_out_its_own() -> None:
    store = ConstraintStore(1000, 20_000)
    modest = put(store, "modest", "a")
    greedy = [put(store, "greedy", f"{number}" * 500) for number in range(100)]
    assert ids(store, "modest") == [modest]
    assert ids(store, "greedy") == greedy[-len(ids(store, "greedy")) :]
    assert len(ids(store, "greedy")) > 3
    assert store.nbytes <= 20_000


def test_both_bounds_hold_whatever_comes() -> None:
    store = ConstraintStore(10, 8_000)
    for number in range(200):
        put(store, f"salt {number % 7}", "x" * (number * 37 % 3000))
        assert len(store) <= 10
        assert store.nbytes <= 8_000
        kept = [info for salt in range(7) for info in store.listed(f"salt {salt}")]
        assert (len(store), store.nbytes) == (len(kept), sum(info.nbytes for info in kept))


def test_what_alone_is_too_large_is_refused_and_pushes_nothing_out() -> None:
    store = ConstraintStore(10, 2_000)
    name = put(store, "", "a")
    with pytest.raises(LimitExceededError, match="2000 may be stored; send it with each request"):
        put(store, "", "b" * 2_000)
    assert ids(store, "") == [name]
