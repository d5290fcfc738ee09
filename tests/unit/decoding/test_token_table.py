"""Tokens are found by their bytes, and by which of them begin with each other."""

from __future__ import annotations

from guided.decoding.text_index import TokenTable
from guided.spec import TokenId

TABLE = TokenTable([b"l", b"le", b"leather", b"p", None, b"plate", b"le"])


def tokens(*numbers: int) -> list[TokenId]:
    return [TokenId(number) for number in numbers]


def test_of_equal_tokens_the_lowest_is_found() -> None:
    assert TABLE.find(b"le") == 1
    assert TABLE.find(b"lea") is None


def test_a_shorter_token_is_the_next_that_a_token_begins_with() -> None:
    assert [TABLE.shorter(TokenId(token)) for token in (2, 1, 0, 5)] == [1, 0, None, 3]
    assert TABLE.shorter(TokenId(4)) is None


def test_the_longest_are_those_that_no_other_begins_with() -> None:
    assert TABLE.longest([0, 1, 2, 3, 5]) == tokens(2, 5)
    assert TABLE.longest([3, 0, 1]) == tokens(1, 3)
    assert TABLE.longest([4]) == TABLE.longest([]) == []
