"""Automata over code points and over bytes, held against Python's own machinery."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.automata.byte_dfa import (
    byte_dfa_from_dfa,
    byte_dfa_from_literals,
)
from guided.automata.codepoints import ANY, CodePoints
from guided.automata.dfa import dfa_from_regular, length_dfa, product
from guided.automata.regular import ANYTHING, Chars, Concat, Repeat, literal
from guided.automata.shortest import STOP, shortest_ways
from guided.automata.utf8 import json_string_sequences, utf8_sequences
from guided.errors import LimitExceededError

_POINTS = st.integers(0, 0x10FFFF).filter(lambda p: not 0xD800 <= p <= 0xDFFF)
_SETS = st.lists(st.tuples(_POINTS, _POINTS).map(sorted).map(tuple), max_size=4)
_CHARACTERS = _POINTS.map(chr)


@given(_SETS, _SETS, _POINTS)
def test_sets_of_code_points_obey_the_laws_of_sets(a: object, b: object, point: int) -> None:
    left, right = CodePoints.of(a), CodePoints.of(b)  # type: ignore[arg-type]
    assert (point in (left | right)) == (point in left or point in right)
    assert (point in (left & right)) == (point in left and point in right)
    assert (point in ~left) == (point not in left)
    assert ~~left == left


def test_surrogates_are_no_members() -> None:
    assert CodePoints.of([(0xD7FF, 0xE000)]).ranges == ((0xD7FF, 0xD7FF), (0xE000, 0xE000))
    assert 0xD800 not in ANY


@given(_POINTS, _POINTS, _POINTS)
def test_byte_ranges_spell_exactly_the_code_points_of_their_range(a: int, b: int, c: int) -> None:
    low, high = sorted((a, b))
    sequences = [
        s
        for first, last in CodePoints.of([(low, high)]).ranges
        for s in utf8_sequences(first, last)
    ]
    text = chr(c).encode()
    matches = [
        s
        for s in sequences
        if len(s) == len(text) and all(x <= y <= z for (x, z), y in zip(s, text, strict=True))
    ]
    assert len(matches) == (low <= c <= high)


@settings(deadline=None)
@given(st.text(_CHARACTERS, max_size=6), st.integers(0, 3), st.integers(0, 3))
def test_a_json_string_is_spelled_as_json_dumps_does(text: str, low: int, spread: int) -> None:
    """Lengths count code points, not bytes and not escapes."""
    block = byte_dfa_from_dfa(length_dfa(low, low + spread), json_string_sequences)
    block.check()
    spelled = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    assert (block.run(spelled) == 0) == (low <= len(text) <= low + spread)


@pytest.mark.parametrize(
    "spelling", [rb"\u0041", rb"\/", rb"\u000A", b"\n", b'"', b"\xff", b"\xed\xa0\x80", b"\xc0\x80"]
)
def test_a_spelling_that_is_not_canonical_is_no_content_of_a_string(spelling: bytes) -> None:
    block = byte_dfa_from_dfa(dfa_from_regular(ANYTHING), json_string_sequences)
    assert block.run(b"ok") == 0
    assert block.run(spelling) is None


def test_code_points_that_need_a_missing_byte_are_left_out() -> None:
    block = byte_dfa_from_dfa(length_dfa(1, None), utf8_sequences, missing={0xF1, ord("a")})
    block.check()
    assert block.run("\U00050000".encode()) is None
    assert block.run(b"bab") is None
    assert block.run("b\U00020000".encode()) == 0


def test_an_automaton_without_a_spelling_left_is_empty() -> None:
    block = byte_dfa_from_dfa(dfa_from_regular(literal("ab")), utf8_sequences, missing={ord("b")})
    assert len(block) == 0
    assert block.run(b"ab") is None


@given(st.dictionaries(st.binary(min_size=1, max_size=4), st.integers(0, 3), max_size=8))
def test_a_trie_tells_its_literals_apart(literals: dict[bytes, int]) -> None:
    block = byte_dfa_from_literals(literals.items())
    block.check()
    for text, label in literals.items():
        assert block.run(text) == label
        for other in (text + b"x", text[:-1]):
            assert block.run(other) == literals.get(other)


@given(st.dictionaries(st.binary(min_size=1, max_size=5), st.integers(0, 2), min_size=1))
def test_the_shortest_way_has_the_length_it_says(literals: dict[bytes, int]) -> None:
    block = byte_dfa_from_literals(literals.items())
    costs = {0: 0, 1: 3, 2: 100}
    left, way = shortest_ways(block, costs)
    assert left[0] == min(len(text) + costs[label] for text, label in literals.items())
    state, steps = 0, 0
    while way[state] != STOP:
        state, steps = block.step(state, int(way[state])), steps + 1
    assert steps + costs[int(block.label[state])] == left[0]


def test_a_product_keeps_what_both_accept() -> None:
    letters = Repeat(Chars(CodePoints.of([(97, 99)])), 0, None)
    both = product(
        dfa_from_regular(letters),
        dfa_from_regular(Concat((literal("a"), ANYTHING))),
        lambda a, b: a and b,
    )
    both.check()
    assert [both.accepts(text) for text in ("a", "abc", "ba", "ad", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_equal_residual_languages_share_a_state() -> None:
    """(a|b)c and ac|bc are one chain of three states."""
    dfa = dfa_from_regular(Concat((Chars(CodePoints.of([(97, 98)])), literal("c"))))
    assert len(dfa) == 3
    assert np.count_nonzero(dfa.accepting) == 1


def test_too_many_states_are_refused() -> None:
    deep = Repeat(Repeat(Chars(ANY), 1, 1000), 1, 1000)
    with pytest.raises(LimitExceededError, match="more than 100000 states"):
        dfa_from_regular(deep)
