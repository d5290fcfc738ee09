"""Automata over code points and over bytes, compared with Python's own functions."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from guided.errors import LimitExceededError
from guided.regular.byte_dfa import byte_dfa_from_dfa
from guided.regular.codepoints import ANY, CodePoints
from guided.regular.dfa import DEAD, combine, dfa_from_regular, length_dfa
from guided.regular.equal_columns import group_classes
from guided.regular.expression import (
    ANYTHING,
    MAX_DEPTH,
    Alternate,
    Chars,
    Concat,
    Intersection,
    Look,
    Regular,
    Repeat,
    SeparatedRepeat,
    literal,
)
from guided.regular.minimize import minimize
from guided.regular.nfa import nfa_from_regular
from guided.regular.partition import partition
from guided.regular.transitions import moves_by_state
from guided.regular.utf8 import json_string_sequences, utf8_sequences
from guided.regular.word_graph import without_texts, word_graph
from guided.runtime.work_budget import limited_work

_POINTS = st.integers(0, 0x10FFFF).filter(lambda p: not 0xD800 <= p <= 0xDFFF)
_SETS = st.lists(st.tuples(_POINTS, _POINTS).map(sorted).map(tuple), max_size=4)
_CHARACTERS = _POINTS.map(chr)


@given(_SETS, _SETS, _POINTS)
def test_sets_of_code_points_obey_the_laws_of_sets(a: object, b: object, point: int) -> None:
    left, right = CodePoints.from_ranges(a), CodePoints.from_ranges(b)  # type: ignore[arg-type]
    assert (point in (left | right)) == (point in left or point in right)
    assert (point in (left & right)) == (point in left and point in right)
    assert (point in ~left) == (point not in left)
    assert ~~left == left


_PARTS: tuple[Regular, ...] = (
    literal(""),
    literal("a"),
    literal("b"),
    literal("ab"),
    Repeat(literal("a"), 0, None),
    Repeat(literal("ba"), 0, 2),
    Alternate((literal("b"), literal("bb"))),
    Alternate(()),
)


@pytest.mark.parametrize("item", _PARTS)
@pytest.mark.parametrize("separator", _PARTS)
def test_a_separated_repeat_is_one_item_and_then_more(item: Regular, separator: Regular) -> None:
    separated = SeparatedRepeat(item, separator)
    written_out = Concat((item, Repeat(Concat((separator, item)), 0, None)))
    around: list[Regular] = [
        Repeat(separated, 0, 2),
        SeparatedRepeat(separated, literal("c")),
        Concat((separated, item)),
    ]
    written: list[Regular] = [
        Repeat(written_out, 0, 2),
        SeparatedRepeat(written_out, literal("c")),
        Concat((written_out, item)),
    ]
    for left, right in zip([separated, *around], [written_out, *written], strict=True):
        one, other = dfa_from_regular(left), dfa_from_regular(right)
        differing = combine([one, other], lambda labels: 0 if labels.count(DEAD) == 1 else DEAD)
        assert not len(differing)


def test_surrogates_are_no_members() -> None:
    assert CodePoints.from_ranges([(0xD7FF, 0xE000)]).ranges == ((0xD7FF, 0xD7FF), (0xE000, 0xE000))
    assert 0xD800 not in ANY


@given(_POINTS, _POINTS, _POINTS)
def test_byte_ranges_spell_exactly_the_code_points_of_their_range(a: int, b: int, c: int) -> None:
    low, high = sorted((a, b))
    sequences = [
        s
        for first, last in CodePoints.from_ranges([(low, high)]).ranges
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
    block = byte_dfa_from_dfa(
        length_dfa(1, None), utf8_sequences, unavailable_bytes={0xF1, ord("a")}
    )
    block.check()
    assert block.run("\U00050000".encode()) is None
    assert block.run(b"bab") is None
    assert block.run("b\U00020000".encode()) == 0


@pytest.mark.parametrize(
    ("low", "high", "lengths"), [(0, 0, {0}), (1, 2, {1, 2}), (2, None, {2, 3}), (3, 2, set())]
)
def test_lengths_are_counted(low: int, high: int | None, lengths: set[int]) -> None:
    dfa = length_dfa(low, high)
    dfa.check()
    assert {length for length in range(4) if dfa.accepts("é" * length)} == lengths


def test_an_automaton_without_a_spelling_left_is_empty() -> None:
    block = byte_dfa_from_dfa(
        dfa_from_regular(literal("ab")), utf8_sequences, unavailable_bytes={ord("b")}
    )
    assert len(block) == 0
    assert block.run(b"ab") is None


_TEXTS = ["".join(text) for n in range(5) for text in itertools.product("abc", repeat=n)]
_SMALL = st.sampled_from(
    [
        literal("ab"),
        Repeat(literal("a"), 0, None),
        Repeat(Chars(CodePoints.from_ranges([(97, 98)])), 1, 3),
        Concat((ANYTHING, literal("b"))),
        Concat((literal("c"), ANYTHING)),
        Alternate(()),
        ANYTHING,
    ]
)


@settings(deadline=None)
@given(st.lists(_SMALL, max_size=4), st.randoms(use_true_random=False))
def test_automata_run_side_by_side_and_any_verdict_on_them_holds(
    parts: list[Regular], random: Random
) -> None:
    """``decide`` may label any combination of labels, that of no match at all included."""
    dfas = [dfa_from_regular(part).relabel({0: i}) for i, part in enumerate(parts)]
    verdicts: dict[tuple[int, ...], int] = {}
    joint = combine(
        dfas, lambda labels: verdicts.setdefault(labels, random.choice([DEAD, 0, 1, 7]))
    )
    joint.check()
    for text in _TEXTS:
        assert joint.run(text) == verdicts[tuple(dfa.run(text) for dfa in dfas)], text
    assert len(verdicts) == len({tuple(dfa.run(text) for dfa in dfas) for text in _TEXTS})


def test_a_complement_holds_code_points_that_no_automaton_mentions() -> None:
    no = combine([dfa_from_regular(literal("a"))], lambda labels: 0 if labels == (DEAD,) else DEAD)
    assert no.accepts("\U0001f600")
    assert no.accepts("")
    assert not no.accepts("a")


def test_a_product_that_grows_too_large_is_refused() -> None:
    cycles = [
        dfa_from_regular(Repeat(Repeat(Chars(ANY), size, size), 0, None)) for size in (997, 991)
    ]
    with pytest.raises(LimitExceededError, match="more than 200000 states"):
        combine(cycles, lambda labels: 0 if DEAD not in labels else DEAD)


@settings(deadline=None)
@given(_SMALL, st.lists(st.sampled_from(_TEXTS), max_size=6))
def test_texts_can_be_taken_out(part: Regular, texts: list[str]) -> None:
    whole = dfa_from_regular(part)
    less = without_texts(whole, texts)
    less.check()
    for text in _TEXTS:
        assert less.run(text) == (DEAD if text in texts else whole.run(text))


def test_nothing_is_left_of_a_finite_language_without_its_texts() -> None:
    assert len(without_texts(dfa_from_regular(literal("ab")), ["ab"])) == 0
    assert len(without_texts(dfa_from_regular(Alternate(())), ["ab"])) == 0


def test_renaming_labels_drops_the_texts_of_those_not_named() -> None:
    words = {literal("a"): 0, literal("b"): 1, literal("ac"): 2}
    dfas = [dfa_from_regular(word) for word in words]
    labelled = combine(
        dfas, lambda labels: next((i for i, label in enumerate(labels) if label == 0), DEAD)
    )
    renamed = labelled.relabel({0: 5, 1: 5})
    renamed.check()
    assert [renamed.run(text) for text in ("a", "b", "ac")] == [5, 5, DEAD]
    assert len(renamed) == 2


def test_labels_reach_the_automaton_over_bytes_and_can_be_kept_by_name() -> None:
    is_short = combine([length_dfa(0, 2)], lambda labels: 3 if labels == (0,) else 8)
    block = byte_dfa_from_dfa(is_short, json_string_sequences)
    assert block.run("éé".encode()) == 3
    assert block.run(b"abc") == 8
    kept = block.keep_labels({3})
    kept.check()
    assert kept.run("éé".encode()) == 3
    assert kept.run(b"abc") is None
    assert len(block.keep_labels(())) == 0


def test_states_between_two_code_points_come_first() -> None:
    block = byte_dfa_from_dfa(length_dfa(0, 3), utf8_sequences)
    assert block.num_boundary_states == 4
    state = 0
    for byte in "é".encode()[:1]:
        state = block.step(state, byte)
    assert state >= block.num_boundary_states
    assert block.step(state, "é".encode()[1]) == 1


def test_equal_rows_inside_a_code_point_are_stored_once() -> None:
    """Both states of (é|è)* with an even count lead to the other one: three rows each way."""
    block = byte_dfa_from_dfa(
        dfa_from_regular(
            Repeat(Repeat(Chars(CodePoints.from_ranges([(0xE8, 0xE9)])), 2, 2), 0, None)
        ),
        utf8_sequences,
    )
    assert len(block) == 4


def test_equal_residual_languages_share_a_state() -> None:
    """(a|b)c and ac|bc are one chain of three states."""
    dfa = dfa_from_regular(
        Alternate((Concat((literal("a"), literal("c"))), Concat((literal("b"), literal("c")))))
    )
    assert len(dfa) == 3
    assert len(dfa.classes) == 2
    assert np.count_nonzero(dfa.accepting) == 1


def _tables_of(
    size: int,
) -> st.SearchStrategy[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Transition tables of a number of states over two letters, with their labels."""
    table = arrays(np.int32, (size, 2), elements=st.integers(-1, size - 1))
    return st.tuples(table, arrays(np.int32, size, elements=st.integers(-1, 1)))


@given(st.integers(1, 6).flatmap(_tables_of))
def test_states_that_no_text_distinguishes_are_merged(
    drawn: tuple[NDArray[np.int32], NDArray[np.int32]],
) -> None:
    table, label = drawn
    texts = [
        text for size in range(len(label) + 1) for text in itertools.product(range(2), repeat=size)
    ]

    def language(table: NDArray[np.int32], label: NDArray[np.int32], state: int) -> list[int]:
        """The label of each text; longer texts distinguish no more states of this number."""
        found = []
        for text in texts:
            at = state
            for letter in text:
                at = -1 if at == -1 else int(table[at, letter])
            found.append(-1 if at == -1 else int(label[at]))
        return found

    reached = {0}
    for _ in label:
        reached |= {int(to) for state in reached for to in table[state] if to != -1}
    wanted = {tuple(language(table, label, state)) for state in reached} - {(-1,) * len(texts)}
    small, small_label = minimize(table, label)
    if language(table, label, 0) == [-1] * len(texts):
        assert not len(small)
        return
    assert language(small, small_label, 0) == language(table, label, 0)
    assert {tuple(language(small, small_label, state)) for state in range(len(small))} == wanted
    assert len(small) == len(wanted)


@pytest.mark.parametrize("length", [3, 12, 13, 40])
def test_equal_states_are_found_however_far_their_end_is(length: int) -> None:
    """A start leads to two chains, one of which is longer by one."""
    size = 1 + length + length + 1
    table = np.full((size, 2), -1, dtype=np.int32)
    table[0] = 1, 1 + length
    table[1 : size - 1, 0] = np.arange(2, size)
    table[length, 0] = -1
    label = np.full(size, -1, dtype=np.int32)
    label[[length, size - 1]] = 7
    small, small_label = minimize(table, label)
    assert len(small) == 1 + length + 1
    assert small_label.tolist().count(7) == 1
    # Backwards: each state leads to the one before it.
    table = np.full((size, 1), -1, dtype=np.int32)
    table[0, 0], table[2:, 0] = size - 1, np.arange(1, size - 1)
    label = np.full(size, -1, dtype=np.int32)
    label[1] = 0
    assert len(minimize(table, label)[0]) == size


def test_a_long_chain_is_minimal_too() -> None:
    """Every state of a bounded repeat is distinct; the ends of adjacent ones are merged."""
    letter = Chars(CodePoints.single("a"))
    assert len(dfa_from_regular(Repeat(letter, 0, 3000))) == 3001
    assert len(dfa_from_regular(Repeat(Repeat(letter, 0, 50), 0, 60))) == 3001


@given(st.lists(_SETS, max_size=5), _POINTS)
def test_a_class_determines_which_sets_contain_a_code_point(
    ranges: list[object], point: int
) -> None:
    sets = [CodePoints.from_ranges(some) for some in ranges]  # type: ignore[arg-type]
    parts = partition(sets)
    containing = [i for i, chars in enumerate(parts.classes) if point in chars]
    wanted = {number for number, chars in enumerate(sets) if point in chars}
    assert len(containing) == bool(wanted)
    for number, members in enumerate(parts.members):
        assert (number in wanted) == any(i in members for i in containing)


@given(
    arrays(np.int32, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=st.integers(-1, 1))
)
def test_equal_columns_are_one_group_and_dead_ones_none(table: NDArray[np.int32]) -> None:
    group, groups = group_classes(moves_by_state(table), table.shape[1])
    found: dict[tuple[int, ...], int] = {}
    for column in range(table.shape[1]):
        cells = tuple(table[:, column].tolist())
        expected = -1 if set(cells) == {-1} else found.setdefault(cells, len(found))
        assert group[column] == expected
    assert groups == len(found)


def test_too_many_states_are_refused() -> None:
    deep = Repeat(Repeat(Chars(ANY), 1, 1000), 1, 1000)
    with pytest.raises(LimitExceededError, match="more than 100000 states"):
        dfa_from_regular(deep)


def test_a_match_is_not_taken_for_a_state_that_stands_alone() -> None:
    """A search that has matched is one subset among many, each of which is looked up by hash."""
    letter, digit = (
        Chars(CodePoints.from_ranges([(65, 90)])),
        Chars(CodePoints.from_ranges([(48, 57)])),
    )
    dash = Chars(CodePoints.single("-"))
    for high in range(1, 120):
        expression = Concat((letter, letter, dash, Repeat(digit, 1, high)))
        dfa = dfa_from_regular(expression, search=True)
        assert dfa.accepts("AB-1"), high
        assert not dfa.accepts("AB-"), high


def test_sets_that_overlap_very_often_are_refused() -> None:
    """Each of many nested sets adds a class that all larger ones contain."""
    nested = [CodePoints.from_ranges([(0x4000, 0x4000 + last)]) for last in range(6_000)]
    with pytest.raises(LimitExceededError, match="more than 16000000 pieces"):
        partition(nested)
    with pytest.raises(LimitExceededError, match="more than 16000000 pieces"):
        dfa_from_regular(Alternate(tuple(map(Chars, nested))))


def test_moves_that_each_read_very_many_classes_are_refused() -> None:
    letters = [Chars(CodePoints.single(chr(0x4000 + number))) for number in range(2_000)]
    any_letter = Chars(CodePoints.from_ranges([(0x4000, 0x4000 + 1_999)]))
    with pytest.raises(LimitExceededError, match="more than 16000000 moves"):
        dfa_from_regular(Concat((Alternate(tuple(letters)), Repeat(any_letter, 8_001, 8_001))))


def test_a_table_of_very_many_cells_is_refused() -> None:
    letters = [Chars(CodePoints.single(chr(0x4000 + number))) for number in range(4_001)]
    with pytest.raises(LimitExceededError, match="more than 16000000 cells"):
        dfa_from_regular(Concat(tuple(letters)))


def test_very_many_leading_look_aheads_are_refused() -> None:
    looks = [Look(Chars(CodePoints.single(chr(code)))) for code in range(0x100, 0x2100)]
    with pytest.raises(LimitExceededError, match="too many look-aheads"):
        dfa_from_regular(Concat(tuple(looks)))


def _nested(around: Callable[[Regular], Regular], times: int) -> Regular:
    node: Regular = Chars(ANY)
    for _ in range(times):
        node = around(node)
    return node


@pytest.mark.parametrize(
    "nested",
    [
        lambda inner: Concat((inner, inner)),
        lambda inner: Alternate((inner,)),
        lambda inner: Repeat(inner, 0, 1),
        Look,
        lambda inner: Intersection(inner, Chars(ANY)),
    ],
)
def test_very_deep_expressions_are_refused(nested: Callable[[Regular], Regular]) -> None:
    with pytest.raises(LimitExceededError, match="nests deeper than 1000"):
        _nested(nested, 100_000)


def test_deep_expressions_are_made_or_refused() -> None:
    """Compiled code can go as deep as an expression may be; interpreted code may refuse it."""
    node = _nested(lambda inner: Concat((inner, Chars(ANY))), MAX_DEPTH)
    with suppress(LimitExceededError):
        assert len(dfa_from_regular(node)) == MAX_DEPTH + 2


@given(st.lists(_SETS, min_size=1, max_size=4), st.text(_CHARACTERS, max_size=3), st.data())
def test_texts_run_through_the_classes_that_hold_their_characters(
    sets: list[list[tuple[int, int]]], text: str, data: st.DataObject
) -> None:
    chars = [CodePoints.from_ranges(ranges) for ranges in sets]
    edges = [edge for each in chars for pair in each.ranges for edge in pair]
    if edges:
        text += "".join(map(chr, data.draw(st.lists(st.sampled_from(edges), max_size=2))))
    dfa = dfa_from_regular(Concat(tuple(map(Chars, chars))))
    expected = len(text) == len(chars) and all(
        ord(character) in each for character, each in zip(text, chars, strict=True)
    )
    assert dfa.accepts(text) == expected


def test_running_a_text_is_work_by_its_length_alone() -> None:
    """As classes were searched for each character, this took seconds, and none of it counted."""
    words = [literal(chr(0x4E00 + 2 * number) * 2) for number in range(2_000)]
    dfa = dfa_from_regular(Repeat(Alternate(tuple(words)), 0, None))
    text = chr(0x4E00 + 2 * 1_999) * 10_000
    with limited_work(20_000):
        assert dfa.accepts(text)
    with limited_work(9_000), pytest.raises(LimitExceededError):
        dfa.accepts(text)


def test_copies_of_a_large_graph_are_bounded_before_they_take_memory() -> None:
    letters = word_graph([chr(0x4E00 + number) for number in range(2_000)])
    assert dfa_from_regular(Repeat(letters, 1, 30)).accepts("\u4e00" * 30)
    tracemalloc.start()
    with pytest.raises(LimitExceededError, match="more than 16000000 moves"):
        nfa_from_regular(Repeat(letters, 1, 9_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000
