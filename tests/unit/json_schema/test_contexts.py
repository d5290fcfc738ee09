"""Nests of containers as numbers."""

from __future__ import annotations

import pytest

from guided.errors import LimitExceededError
from guided.json_schema.formulas.formula import TRUE
from guided.json_schema.machine.contexts import (
    MANY_NAMES,
    NO_KEYS,
    ROOT,
    UNKNOWN_KEYS,
    ArrayFrame,
    Contexts,
    ObjectFrame,
    Pending,
)
from guided.machine.facts import KNOWLEDGE, KNOWN, NONE, UNKNOWN

_VALUE = Pending(None, (TRUE,), must=True)
_ARRAY = ArrayFrame((TRUE,), must=True)


def _object(keys: int = NO_KEYS) -> ObjectFrame:
    return ObjectFrame((TRUE,), must=True, order=0, written=-1, keys=keys)


def _contexts(max_contexts: int = 100) -> Contexts:
    contexts = Contexts(_VALUE, max_contexts)
    contexts.order_sizes.append(3)
    return contexts


def test_equal_nests_have_equal_numbers() -> None:
    contexts = _contexts()
    outer = contexts.enter(_ARRAY, ROOT)
    inner = contexts.enter(_object(), outer)
    assert contexts.enter(ArrayFrame((TRUE,), must=True), ROOT) == outer
    assert contexts.enter(_object(), outer) == inner
    assert contexts.enter(_object(), ROOT) != inner
    assert contexts.enter(_ARRAY, inner) != outer
    assert [contexts.parents[at] for at in (outer, inner)] == [ROOT, outer]
    assert contexts.frames[inner] == _object()
    assert len(contexts) == 5


def test_sets_of_keys_are_remembered() -> None:
    contexts = _contexts()
    one = contexts.with_key(NO_KEYS, b"a")
    two = contexts.with_key(one, b"b")
    assert contexts.with_key(NO_KEYS, b"a") == one
    assert list(contexts.keys(two)) == [b"b", b"a"]
    assert list(contexts.keys(NO_KEYS)) == list(contexts.keys(UNKNOWN_KEYS)) == []


def test_a_context_says_what_it_knows_of_its_keys() -> None:
    contexts = _contexts()
    some = contexts.with_key(NO_KEYS, b"a")
    known = {NO_KEYS: NONE, some: KNOWN, UNKNOWN_KEYS: UNKNOWN}
    for keys, expected in known.items():
        assert contexts.facts[contexts.enter(_object(keys), ROOT), KNOWLEDGE] == expected
    assert contexts.facts[contexts.enter(_ARRAY, ROOT), KNOWLEDGE] == NONE


def test_a_context_counts_the_names_that_are_taken() -> None:
    contexts = _contexts()
    two = contexts.with_key(contexts.with_key(NO_KEYS, b"a"), b"b")
    taken = {NO_KEYS: 3, two: 5, UNKNOWN_KEYS: MANY_NAMES}
    for keys, expected in taken.items():
        assert contexts.taken(contexts.enter(_object(keys), ROOT)) == expected
    assert contexts.taken(contexts.enter(_ARRAY, ROOT)) == 0


def test_a_context_counts_the_values_that_are_remembered() -> None:
    contexts = _contexts()
    item = Pending(_ARRAY, (TRUE,), must=True, remembers=True)
    once = contexts.enter(item, ROOT)
    inside = contexts.enter(_object(), once)
    twice = contexts.enter(item, inside)
    assert [contexts.depth(at) for at in (ROOT, once, inside, twice)] == [0, 1, 1, 2]


def test_contexts_grow_to_their_limit() -> None:
    contexts = _contexts(1_000)
    at = ROOT
    for _ in range(999):
        at = contexts.enter(_ARRAY, at)
    assert len(contexts) == 1_000
    assert contexts.enter(_ARRAY, contexts.parents[at]) == at
    with pytest.raises(LimitExceededError, match="more than 1000 contexts"):
        contexts.enter(_ARRAY, at)
