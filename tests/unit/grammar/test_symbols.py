"""Sets of symbols, which the automata of a network are over."""

from __future__ import annotations

import pytest

from guided.grammar.network.symbols import (
    MAX_HOLES,
    MAX_RULES,
    Kind,
    has_bytes,
    numbers_in,
    symbol_set,
    without_calls,
)
from guided.regular.codepoints import CodePoints


def _symbols_in(chars: CodePoints) -> list[tuple[Kind, int]]:
    """All symbols in a set, in the order of their codes."""
    return [(kind, number) for kind in Kind for number in numbers_in(chars, kind)]


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        (Kind.BYTE, (0, 65, 255)),
        (Kind.ASSERTION, (0, 1, 9_999)),
        (Kind.CALL, (0, 1, 2, MAX_RULES - 1)),
        (Kind.HOLE, (0, MAX_HOLES - 1)),
    ],
)
def test_a_set_holds_the_symbols_that_it_was_made_of_and_no_others(
    kind: Kind, numbers: tuple[int, ...]
) -> None:
    chars = symbol_set(kind, numbers)
    assert _symbols_in(chars) == [(kind, number) for number in numbers]
    for other in Kind:
        assert numbers_in(chars, other) == (numbers if other is kind else ())
    assert has_bytes(chars) == (kind is Kind.BYTE)


def test_symbols_of_all_kinds_stand_in_one_set() -> None:
    first_and_last = [
        *[(Kind.BYTE, number) for number in (0, 255)],
        *[(Kind.ASSERTION, number) for number in (0, 9_999)],
        *[(Kind.CALL, number) for number in (0, MAX_RULES - 1)],
        *[(Kind.HOLE, number) for number in (0, MAX_HOLES - 1)],
    ]
    chars = symbol_set(Kind.BYTE, [])
    for kind, number in first_and_last:
        chars = chars | symbol_set(kind, [number])
    assert _symbols_in(chars) == first_and_last


def test_calls_leave_a_set_and_all_else_stays() -> None:
    chars = symbol_set(Kind.BYTE, [97]) | symbol_set(Kind.CALL, [1, 2]) | symbol_set(Kind.HOLE, [2])
    assert _symbols_in(without_calls(chars, [2, 3])) == [
        (Kind.BYTE, 97),
        (Kind.CALL, 1),
        (Kind.HOLE, 2),
    ]
    assert without_calls(chars, [4]) is chars
