"""Nests of containers as numbers."""

from __future__ import annotations

import pytest

from guided.errors import LimitExceededError
from guided.json_schema.formulas.formula import TRUE
from guided.json_schema.machine.stacks import (
    MANY_NAMES,
    NO_NAMES,
    ROOT,
    UNKNOWN_NAMES,
    ArrayFrame,
    AwaitedValue,
    ObjectFrame,
    Stacks,
)
from guided.machine.facts import KNOWLEDGE, KNOWN, NONE, UNKNOWN

_VALUE = AwaitedValue(None, (TRUE,), required=True)
_ARRAY = ArrayFrame((TRUE,), required=True)


def _object(keys: int = NO_NAMES) -> ObjectFrame:
    return ObjectFrame((TRUE,), required=True, order=0, names_passed=-1, additional_set=keys)


def _stacks(max_stacks: int = 100) -> Stacks:
    stacks = Stacks(_VALUE, max_stacks)
    stacks.order_sizes.append(3)
    return stacks


def test_equal_nests_have_equal_numbers() -> None:
    stacks = _stacks()
    outer = stacks.enter(_ARRAY, ROOT)
    inner = stacks.enter(_object(), outer)
    assert stacks.enter(ArrayFrame((TRUE,), required=True), ROOT) == outer
    assert stacks.enter(_object(), outer) == inner
    assert stacks.enter(_object(), ROOT) != inner
    assert stacks.enter(_ARRAY, inner) != outer
    assert [stacks.parents[at] for at in (outer, inner)] == [ROOT, outer]
    assert stacks.frames[inner] == _object()
    assert len(stacks) == 5


def test_sets_of_keys_are_remembered() -> None:
    stacks = _stacks()
    one = stacks.add_name(NO_NAMES, b"a")
    two = stacks.add_name(one, b"b")
    assert stacks.add_name(NO_NAMES, b"a") == one
    assert list(stacks.iterate_names(two)) == [b"b", b"a"]
    assert list(stacks.iterate_names(NO_NAMES)) == list(stacks.iterate_names(UNKNOWN_NAMES)) == []


def test_a_stack_says_what_it_knows_of_its_keys() -> None:
    stacks = _stacks()
    some = stacks.add_name(NO_NAMES, b"a")
    known = {NO_NAMES: NONE, some: KNOWN, UNKNOWN_NAMES: UNKNOWN}
    for keys, expected in known.items():
        assert stacks.facts[stacks.enter(_object(keys), ROOT), KNOWLEDGE] == expected
    assert stacks.facts[stacks.enter(_ARRAY, ROOT), KNOWLEDGE] == NONE


def test_a_stack_counts_the_names_that_are_taken() -> None:
    stacks = _stacks()
    two = stacks.add_name(stacks.add_name(NO_NAMES, b"a"), b"b")
    taken = {NO_NAMES: 3, two: 5, UNKNOWN_NAMES: MANY_NAMES}
    for keys, expected in taken.items():
        assert stacks.max_names_taken(stacks.enter(_object(keys), ROOT)) == expected
    assert stacks.max_names_taken(stacks.enter(_ARRAY, ROOT)) == 0


def test_a_stack_counts_the_values_that_are_remembered() -> None:
    stacks = _stacks()
    item = AwaitedValue(_ARRAY, (TRUE,), required=True, remembers_text=True)
    once = stacks.enter(item, ROOT)
    inside = stacks.enter(_object(), once)
    twice = stacks.enter(item, inside)
    assert [stacks.num_texts(at) for at in (ROOT, once, inside, twice)] == [0, 1, 1, 2]


def test_stacks_grow_to_their_limit() -> None:
    stacks = _stacks(1_000)
    at = ROOT
    for _ in range(999):
        at = stacks.enter(_ARRAY, at)
    assert len(stacks) == 1_000
    assert stacks.enter(_ARRAY, stacks.parents[at]) == at
    with pytest.raises(LimitExceededError, match="more than 1000 stacks"):
        stacks.enter(_ARRAY, at)
