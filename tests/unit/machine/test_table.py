"""Rows added to a table: blocks, chains, single rows and overlays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.errors import LimitExceededError
from guided.json_schema.machine.spelled_texts import ChainBuilder
from guided.machine.block import CODE_POINT_END, STOP, make_block
from guided.machine.table import IN_KEY, NO_BOUND, PLAIN, UNCOUNTED, TransitionTable
from guided.machine.table_layout import MAX_ROWS
from guided.regular.dfa import DEAD
from tests.unit.machine.tries import trie_of

_CELLS = 100_000


def _walk(table: TransitionTable, row: int, text: bytes) -> int:
    for byte in text:
        if row != DEAD:
            row = table.step(row, byte)
    return row


def _shortest_path(table: TransitionTable, row: int) -> bytes:
    text = bytearray()
    while table.next_byte[row] != STOP:
        text.append(int(table.next_byte[row]))
        row = table.step(row, text[-1])
    return bytes(text)


def test_a_block_is_laid_down_with_its_labels_renamed() -> None:
    table = TransitionTable(_CELLS)
    texts = {b"ab": 0, b"acd": 1, b"b": 0}
    start = table.add_block(make_block(trie_of(texts)), {0: 7, 1: 9})
    assert [int(table.label[_walk(table, start, text)]) for text in texts] == [7, 9, 7]
    assert _walk(table, start, b"ad") == _walk(table, start, b"abc") == DEAD
    assert table.label[start] == table.label[_walk(table, start, b"a")] == DEAD
    assert (table.distance[start], _shortest_path(table, start), table.nearest_label[start]) == (
        1,
        b"b",
        7,
    )
    assert table.only[_walk(table, start, b"ac")] == ord("d")
    assert table.only[start] == DEAD
    assert table.exits[_walk(table, start, b"ab")]
    table.check()


def test_blocks_lie_behind_one_another() -> None:
    table = TransitionTable(_CELLS)
    block = make_block(trie_of({b"x" * 400: 0}))
    first, second = (table.add_block(block, {0: label}) for label in (1, 2))
    assert second == first + 401
    assert table.label[_walk(table, first, b"x" * 400)] == 1
    assert table.label[_walk(table, second, b"x" * 400)] == 2
    assert table.distance[second] == 400
    table.check()


def test_a_chain_spells_one_text() -> None:
    table = TransitionTable(_CELLS)
    end = table.add_row({}, label=5)
    start = table.add_chains(b"abc", [3], [end])
    assert _walk(table, start, b"abc") == end
    assert _walk(table, start, b"ac") == DEAD
    assert (table.distance[start], _shortest_path(table, start), table.nearest_label[start]) == (
        3,
        b"abc",
        5,
    )
    assert [int(table.only[start + i]) for i in range(3)] == list(b"abc")
    table.check()


def test_a_row_takes_the_nearer_way_unless_it_is_told() -> None:
    table = TransitionTable(_CELLS)
    end = table.add_row({}, label=5)
    other = table.add_row({}, label=6)
    edges = {ord("a"): table.add_chains(b"bc", [2], [end]), ord("x"): other}
    near = table.add_row(edges)
    chosen = table.add_row(edges, next_byte=ord("a"))
    assert (table.distance[near], _shortest_path(table, near), table.nearest_label[near]) == (
        1,
        b"x",
        6,
    )
    assert (table.distance[chosen], _shortest_path(table, chosen), table.nearest_label[chosen]) == (
        3,
        b"abc",
        5,
    )
    assert table.edges(near) == edges
    assert table.only[near] == DEAD
    assert table.only[table.add_row({ord("q"): end})] == ord("q")
    assert (table.role[near], table.high[near]) == (PLAIN, UNCOUNTED)
    table.check()


def test_a_row_may_lead_to_itself_and_count() -> None:
    table = TransitionTable(_CELLS)
    end = table.add_row({}, label=5)
    row = table.add_row({ord("]"): end}, loop_bytes=b" \n", bounds=(0, 3))
    assert _walk(table, row, b" \n \n") == row
    assert _walk(table, row, b"  ]") == end
    assert (table.only[row], table.count_event[row]) == (DEAD, CODE_POINT_END)
    assert (table.low[row], table.high[row]) == (0, 3)
    endless = table.add_row({ord("]"): end}, loop_bytes=b" ", bounds=(2, None))
    assert (table.low[endless], table.high[endless]) == (2, NO_BOUND)
    table.check()


def test_a_row_is_laid_over_another() -> None:
    table = TransitionTable(_CELLS)
    end, other = table.add_row({}, label=5), table.add_row({}, label=6)
    under = table.add_row({ord("a"): end, ord("b"): end}, role=IN_KEY)
    over = _add_overlays(table, [under], [(0, ord("b"), other), (0, ord("c"), other)])
    assert table.edges(over) == {ord("a"): end, ord("b"): other, ord("c"): other}
    assert table.edges(under) == {ord("a"): end, ord("b"): end}
    assert (table.overlaid_row[over], table.overlaid_row[under], table.role[over]) == (
        under,
        DEAD,
        IN_KEY,
    )
    table.check()


def test_rows_laid_over_others_lead_to_one_another() -> None:
    table = TransitionTable(_CELLS)
    end, other = table.add_row({}, label=5), table.add_row({}, label=6)
    inner = table.add_row({ord("x"): end, ord("y"): end})
    outer = table.add_row({ord("x"): inner, ord("y"): end})
    first = table.num_rows
    edges = [(0, ord("x"), first + 1), (1, ord("z"), other)]
    assert _add_overlays(table, [outer, inner], edges) == first
    assert [_walk(table, first, text) for text in (b"xz", b"xy", b"y")] == [other, end, end]
    assert _walk(table, outer, b"xz") == DEAD
    assert table.overlaid_row[first : first + 2].tolist() == [outer, inner]
    table.check()


def test_a_table_that_is_full_says_so() -> None:
    table = TransitionTable(20)
    end = table.add_row({}, label=5)
    table.add_chains(b"abc", [3], [end])
    with pytest.raises(LimitExceededError, match="more than 20 cells"):
        table.add_chains(b"abcdefgh", [8], [end])


def test_check_finds_a_row_that_leads_nowhere() -> None:
    table = TransitionTable(_CELLS)
    table.add_row({ord("a"): table.add_row({}, label=5)})
    table.check()
    table.cells[: table.num_cells] = 99
    with pytest.raises(AssertionError):
        table.check()


def test_texts_are_joined_only_where_they_begin_alike() -> None:
    table = TransitionTable(_CELLS)
    chains = ChainBuilder(table)
    texts = [(b'abc"', 1), (b'abd"', 2), (b'x"', 3)]
    start = chains.add_choice(texts)
    for text, label in texts:
        assert table.label[_walk(table, start, text)] == label
    assert _walk(table, start, b'ab"') == _walk(table, start, b"y") == DEAD
    before = table.num_rows
    assert chains.add_choice(reversed(texts)) == start
    assert chains.get_or_add([(b'abc"', 1)])[0].state + 3 == _walk(table, start, b"abc")
    assert table.num_rows == before
    fewer = chains.add_choice(texts[:2])
    assert table.num_rows - before == 1, "the branch behind the first byte is there"
    assert _walk(table, fewer, b"abc") == _walk(table, start, b"abc")
    table.check()


@given(st.sets(st.text("ab", max_size=4), min_size=1, max_size=60), st.integers(0, 40))
def test_texts_added_together_lead_where_each_leads_by_itself(
    names: set[str], left_out: int
) -> None:
    table = TransitionTable(_CELLS)
    chains = ChainBuilder(table)
    texts = [(name.encode() + b'"', number) for number, name in enumerate(sorted(names))]
    for some in (texts, texts[left_out:]):
        if not some:
            continue
        start = chains.add_choice(some)
        table.check()
        shortest = min(some, key=lambda each: len(each[0]))
        assert table.distance[start] == len(shortest[0])
        assert table.nearest_label[start] in {
            label for text, label in some if len(text) == table.distance[start]
        }
        for text, label in some:
            end = _walk(table, start, text)
            assert (table.label[end], table.exits[end]) == (label, True)
        prefixes = {text[:length] for text, _ in some for length in range(len(text) + 1)}
        for prefix in prefixes:
            row = _walk(table, start, prefix)
            assert {prefix + bytes((byte,)) for byte in table.edges(row)} == {
                text for text in prefixes if text[:-1] == prefix and text != prefix
            }


def _add_overlays(
    table: TransitionTable, under: list[int], edges: list[tuple[int, int, int]]
) -> int:
    return table.add_overlays_from_edges(
        np.array(under, dtype=np.int32), np.array(edges, dtype=np.int32)
    )


def test_a_row_and_a_byte_fit_thirty_one_bits() -> None:
    """Masks number both together, in int32."""
    table = TransitionTable(2**40)
    table.add_row({ord("a"): 0})
    with pytest.raises(LimitExceededError, match=f"more than {MAX_ROWS} rows"):
        table._new_rows(MAX_ROWS, 0)
    assert table.num_rows == 1
    assert -1 - 256 * (MAX_ROWS - 1) - 255 == -(2**31)
