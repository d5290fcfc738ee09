"""Each step from an expression to a minimal automaton, against textbook methods."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from guided.regular.codepoints import CodePoints
from guided.regular.dfa import DEAD, Dfa, dfa_from_nfa, dfa_from_regular
from guided.regular.equal_columns import group_columns
from guided.regular.expression import (
    Alternate,
    Chars,
    Concat,
    Regular,
    Repeat,
    SeparatedRepeat,
    short_match,
)
from guided.regular.nfa import nfa_from_regular
from guided.regular.patterns import parse_python_regex, parse_regex
from guided.regular.product_kernel import complete_table, product_table
from guided.regular.reachability import (
    coaccessible,
    count_texts,
    relax_code_points,
    states_reaching_cycle,
)
from guided.regular.transitions import (
    list_moves,
    list_moves_on,
    moves_by_state,
    moves_into,
    table_from_moves,
)

_STATES = [
    # A pattern, the states of its minimal automaton, texts that match, texts that do not.
    ("", 1, [""], ["a"]),
    ("a", 2, ["a"], ["", "aa"]),
    ("a*", 1, ["", "aaa"], ["b"]),
    ("a+", 2, ["a", "aa"], [""]),
    ("(a|b)*b", 2, ["b", "ab", "bb"], ["", "ba"]),
    ("ab|cb", 3, ["ab", "cb"], ["b", "ac"]),
    ("a{2,4}", 5, ["aa", "aaaa"], ["a", "aaaaa"]),
    ("(aa|aaa)*", 3, ["", "aa", "aaaaa"], ["a"]),
    ("a*b*c*", 3, ["", "abc", "aac"], ["ba", "cb"]),
    ("(a|b)*a(a|b){7}", 256, ["a" * 8, "bba" + "b" * 7], ["b" * 8, "a" * 7]),
    ("(a?){5}a{5}", 11, ["a" * 5, "a" * 10], ["a" * 4, "a" * 11]),
    ("[a-c]x|[b-d]y", 5, ["ax", "by", "dy"], ["dx", "ay"]),
    ("(?!ab)[ab]+", 3, ["a", "b", "aab"], ["", "ab", "aba"]),
    ("a(?=b)[ab]{2}", 4, ["aba", "abb"], ["aab", "ab"]),
    ("[ab]+(?<!b)", 2, ["a", "ba"], ["b", "ab"]),
]


@pytest.mark.parametrize(("pattern", "states", "accepted", "rejected"), _STATES)
def test_automata_are_minimal(
    pattern: str, states: int, accepted: list[str], rejected: list[str]
) -> None:
    dfa = dfa_from_regular(parse_python_regex(pattern))
    dfa.check()
    assert len(dfa) == states
    assert [text for text in accepted if not dfa.accepts(text)] == []
    assert [text for text in rejected if dfa.accepts(text)] == []
    assert [text for text in accepted if not re.fullmatch(pattern, text)] == []


_SETS = st.sampled_from(["a", "b", "ab"]).map(
    lambda members: Chars(CodePoints.from_ranges((ord(each), ord(each)) for each in members))
)


def _larger(inner: st.SearchStrategy[Regular]) -> st.SearchStrategy[Regular]:
    parts = st.lists(inner, max_size=3).map(tuple)
    bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (0, 2), (1, 3), (0, 0)])
    return st.one_of(
        parts.map(Concat),
        parts.map(Alternate),
        st.builds(lambda item, ends: Repeat(item, *ends), inner, bounds),
        st.builds(SeparatedRepeat, inner, inner),
    )


_EXPRESSIONS: st.SearchStrategy[Regular] = st.recursive(_SETS, _larger, max_leaves=6)
_TEXTS = ["".join(text) for n in range(5) for text in itertools.product("ab", repeat=n)]


def _is_nullable(node: Regular) -> bool:
    match node:
        case Concat(parts):
            return all(map(_is_nullable, parts))
        case Alternate(options):
            return any(map(_is_nullable, options))
        case Repeat(item, low):
            return low == 0 or _is_nullable(item)
        case SeparatedRepeat(item):
            return _is_nullable(item)
    return False


def _derivative(node: Regular, symbol: str) -> Regular:
    """Return the expression of what may follow a symbol (Brzozowski, 1964)."""
    match node:
        case Chars(chars):
            return Concat(()) if ord(symbol) in chars else Alternate(())
        case Concat((first, *rest)):
            options: tuple[Regular, ...] = (Concat((_derivative(first, symbol), *rest)),)
            if _is_nullable(first):
                options = (*options, _derivative(Concat(tuple(rest)), symbol))
            return Alternate(options)
        case Alternate(options):
            return Alternate(tuple(_derivative(each, symbol) for each in options))
        case Repeat(item, low, high) if high != 0:
            others = Repeat(item, max(low - 1, 0), None if high is None else high - 1)
            return Concat((_derivative(item, symbol), others))
        case SeparatedRepeat(item, separator):
            more = Repeat(Concat((separator, item)), 0, None)
            return _derivative(Concat((item, more)), symbol)
    return Alternate(())


def _matches(node: Regular, text: str) -> bool:
    for symbol in text:
        node = _derivative(node, symbol)
    return _is_nullable(node)


def _contains_match(node: Regular, text: str) -> bool:
    spans = itertools.combinations_with_replacement(range(len(text) + 1), 2)
    return any(_matches(node, text[first:last]) for first, last in spans)


@settings(deadline=None)
@given(_EXPRESSIONS)
def test_an_automaton_has_the_texts_that_derivatives_say(expression: Regular) -> None:
    whole = dfa_from_regular(expression)
    found = dfa_from_regular(expression, search=True)
    for text in _TEXTS:
        assert whole.accepts(text) == _matches(expression, text), text
        assert found.accepts(text) == _contains_match(expression, text), text


@settings(deadline=None)
@given(_EXPRESSIONS)
def test_no_two_states_of_an_automaton_are_equal(expression: Regular) -> None:
    for dfa in (dfa_from_regular(expression), dfa_from_regular(expression, search=True)):
        dfa.check()
        assert len(set(_blocks(dfa))) == len(dfa)


def _blocks(dfa: Dfa) -> list[int]:
    """Equal states get equal numbers (Moore, 1956): by label, then by what they lead to."""
    blocks: list[int] = dfa.label.tolist()
    for _ in range(len(dfa)):
        seen = [
            (blocks[state], *(DEAD if to == DEAD else blocks[to] for to in targets))
            for state, targets in enumerate(dfa.next.tolist())
        ]
        numbers = {each: number for number, each in enumerate(dict.fromkeys(seen))}
        blocks = [numbers[each] for each in seen]
    return blocks


def _subsets(pattern: str, symbols: str) -> int:
    """Return the number of subsets of the textbook construction, without the empty one."""
    nfa = nfa_from_regular(parse_python_regex(pattern))
    sets = [*nfa.sets]

    def close(states: set[int]) -> frozenset[int]:
        worklist = [*states]
        while worklist:
            state = worklist.pop()
            for source, target in zip(nfa.epsilons.sources, nfa.epsilons.targets, strict=True):
                if source == state and target not in states:
                    states.add(target)
                    worklist.append(target)
        return frozenset(states)

    found = {close({0})}
    worklist = [*found]
    while worklist:
        subset = worklist.pop()
        for symbol in symbols:
            moved = {
                target
                for source, target, number in zip(
                    nfa.moves.sources, nfa.moves.targets, nfa.move_sets, strict=True
                )
                if source in subset and ord(symbol) in sets[number]
            }
            if moved and (reached := close(moved)) not in found:
                found.add(reached)
                worklist.append(reached)
    return len(found)


@pytest.mark.parametrize("pattern", ["(a|b)*a(a|b){6}", "(a|ab|b)*", "(aa|ab)*b{0,9}"])
def test_a_bound_on_states_is_about_subsets(pattern: str) -> None:
    """The states of the construction count, not those left after equal ones are merged."""
    nfa = nfa_from_regular(parse_python_regex(pattern))
    subsets = _subsets(pattern, "ab")
    assert dfa_from_nfa(nfa, max_states=subsets) is not None
    assert dfa_from_nfa(nfa, max_states=2) is None


@pytest.mark.parametrize("size", [5, 9, 11])
def test_no_subset_is_lost_when_arrays_grow(size: int) -> None:
    """The states of this language remember which of the last symbols were an ``a``."""
    pattern = f"(a|b)*a(a|b){{{size}}}"
    dfa = dfa_from_regular(parse_python_regex(pattern))
    assert len(dfa) == 2 ** (size + 1)
    for number in range(0, 2 ** (size + 2), 7):
        text = f"{number:0{size + 2}b}".replace("0", "a").replace("1", "b")
        assert dfa.accepts(text) == (text[-size - 1] == "a"), text


def _tables(max_states: int = 5) -> st.SearchStrategy[NDArray[np.int32]]:
    sizes = st.tuples(st.integers(1, max_states), st.integers(1, 4))
    return sizes.flatmap(lambda size: arrays(np.int32, size, elements=st.integers(-1, size[0] - 1)))


def _listed(table: NDArray[np.int32]) -> list[tuple[int, int, int]]:
    """Return source, target and class of every move."""
    return [
        (s, to, c) for s, row in enumerate(table.tolist()) for c, to in enumerate(row) if to >= 0
    ]


@given(_tables())
def test_layouts_of_moves_say_the_same(table: NDArray[np.int32]) -> None:
    count, width = table.shape
    expected = _listed(table)
    assert [*zip(*list_moves(table).tolist(), strict=True)] == expected
    moves = moves_by_state(table)
    assert np.array_equal(table_from_moves(moves, np.arange(width, dtype=np.int32), width), table)
    by_state = [
        (state, int(moves.targets[at]), int(moves.classes[at]))
        for state in range(count)
        for at in range(moves.first[state], moves.first[state + 1])
    ]
    assert by_state == expected
    into = moves_into(moves)
    by_target = [
        (int(into.sources[at]), state, int(into.classes[at]))
        for state in range(count)
        for at in range(into.first[state], into.first[state + 1])
    ]
    assert sorted(by_target) == sorted(expected)


@given(_tables())
def test_moves_on_some_classes_come_class_by_class(table: NDArray[np.int32]) -> None:
    classes = np.arange(table.shape[1] - 1, -1, -1, dtype=np.int32)
    found = [*zip(*list_moves_on(table, classes).tolist(), strict=True)]
    expected = [
        (source, target, place)
        for place, index in enumerate(classes.tolist())
        for source, target, read in _listed(table)
        if read == index
    ]
    assert found == expected


def _ahead(table: NDArray[np.int32]) -> list[set[int]]:
    """Return for each state the states that it leads to, including itself."""
    found = [{state} for state in range(len(table))]
    for _ in range(len(table)):
        for source, target, _ in _listed(table):
            found[source] |= found[target]
    return found


@given(_tables(), st.data())
def test_what_is_reached(table: NDArray[np.int32], data: st.DataObject) -> None:
    accepting = data.draw(arrays(np.bool_, len(table)))
    ahead = _ahead(table)
    reached = [any(accepting[state] for state in states) for states in ahead]
    assert coaccessible(table, accepting).tolist() == reached
    on_cycle = {source for source, target, _ in _listed(table) if source in ahead[target]}
    assert states_reaching_cycle(table).tolist() == [bool(states & on_cycle) for states in ahead]


def test_texts_are_counted_up_to_a_limit() -> None:
    # 0 leads by two bytes to 1 and by one byte to 2; 1 by one byte to 2; 3 to itself.
    table = np.array([[1, 2], [-1, 2], [-1, -1], [3, 2]], dtype=np.int32)
    byte_class = np.array([0, 0, 1], dtype=np.uint8)
    ends = np.array([False, False, True, False])
    assert count_texts(table, byte_class, ends, 100).tolist() == [3, 1, 1, 100]
    assert count_texts(table, byte_class, ends, 2).tolist() == [2, 1, 1, 2]


def test_code_points_to_an_end_are_lowered_until_nothing_changes() -> None:
    # 0 and 1 are between two code points, 2 inside of one.
    table = np.array([[2, -1], [-1, -1], [1, -1]], dtype=np.int32)
    min_remaining = np.array([99, 0, 99], dtype=np.int32)
    rounds = 0
    while relax_code_points(table, 2, min_remaining):
        rounds += 1
    assert min_remaining.tolist() == [1, 0, 1]
    assert rounds >= 1


@given(_tables())
def test_equal_columns_share_a_class(table: NDArray[np.int32]) -> None:
    group, representative = group_columns(table)
    columns = [tuple(column) for column in table.T.tolist()]
    numbers = {column: number for number, column in enumerate(dict.fromkeys(columns))}
    assert group.tolist() == [numbers[column] for column in columns]
    assert [columns[index] for index in representative] == [*numbers]


def test_a_product_has_the_pairs_that_texts_lead_to() -> None:
    even = np.array([[1], [0]], dtype=np.int32)
    by_three = np.array([[1], [2], [0]], dtype=np.int32)
    pairs = product_table(even, by_three, 6)
    assert pairs is not None
    table, lefts, rights = pairs
    assert [*zip(lefts.tolist(), rights.tolist(), strict=True)] == [
        (0, 0),
        (1, 1),
        (0, 2),
        (1, 0),
        (0, 1),
        (1, 2),
    ]
    assert table.tolist() == [[1], [2], [3], [4], [5], [0]]
    assert product_table(even, by_three, 5) is None


def test_a_table_is_completed_by_a_state_that_nothing_leads_out_of() -> None:
    table = np.array([[1], [-1]], dtype=np.int32)
    whole = complete_table(table, np.array([0, -1], dtype=np.int32))
    assert whole.tolist() == [[1, 2], [2, 2], [2, 2]]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^[a-z]{3}$", "aaa"),
        ("[0-9]+x?", "0"),
        ("abc|de", "de"),
        (r"[\u0001-\u0002]", "\x01"),
        ("(?=a)a", None),
        ("a{1001}", None),
        ("[]", None),
    ],
)
def test_a_short_match_is_found_without_an_automaton(pattern: str, text: str | None) -> None:
    regular = parse_regex(pattern)
    assert short_match(regular) == text
    assert text is None or dfa_from_regular(regular).accepts(text)
