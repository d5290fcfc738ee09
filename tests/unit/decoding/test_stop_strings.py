"""A stop is found as if the answer came byte by byte, whatever tokens spell it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.decoding import StopSearch
from guided.spec import TokenId
from tests.engine.finite_language import TOKEN_BYTES, spell_bytes


def read(
    pieces: list[bytes], strings: list[str], tokens: list[int], *, include: bool = False
) -> tuple[int, int | None]:
    """How many pieces were read, and where the text ends; each piece is a token."""
    search = StopSearch(
        pieces, strings=strings, tokens=[TokenId(token) for token in tokens], include=include
    )
    for index in range(len(pieces)):
        if search.read_token(TokenId(index)):
            return index + 1, search.length
    return len(pieces), search.length


@pytest.mark.parametrize(
    ("pieces", "strings", "expected"),
    [
        ([b"the e", b"nd", b"."], ["end"], (2, b"the ")),
        ([b"the end of", b"."], ["end"], (1, b"the ")),
        ([b"e", b"n", b"d"], ["end"], (3, b"")),
        ([b"een", b"d"], ["end"], (2, b"e")),
        ([b"enend"], ["end"], (1, b"en")),
        ([b"abcd"], ["bcd", "bc"], (1, b"a")),
        ([b"abcd"], ["abcd", "bc"], (1, b"a")),
        ([b"abcd"], ["cd", "bcd"], (1, b"a")),
        ([b"ab", b"cd"], ["bcd", "cd"], (2, b"a")),
        ([b"x\xc3", b"\xa9y"], ["é"], (2, b"x")),
        ([b"nothing"], ["end"], (1, None)),
    ],
)
def test_the_text_ends_before_the_string_that_is_complete_first(
    pieces: list[bytes], strings: list[str], expected: tuple[int, bytes | None]
) -> None:
    count, length = read(pieces, strings, [])
    assert (count, None if length is None else b"".join(pieces)[:length]) == expected


def test_the_string_stays_where_it_is_included_and_what_follows_it_does_not() -> None:
    assert read([b"the e", b"nd of"], ["end"], [], include=True) == (2, 7)


def test_a_stop_token_ends_the_answer_with_its_text_or_without() -> None:
    assert read([b"ab", b"cd", b"e"], [], [1]) == (2, 2)
    assert read([b"ab", b"cd", b"e"], [], [1], include=True) == (2, 4)


@pytest.mark.parametrize(
    ("strings", "tokens", "found"), [(["nd", "d"], [], "nd"), (["x"], [1], ""), (["d"], [1], "d")]
)
def test_the_string_that_ended_the_answer_is_known_and_of_a_token_there_is_none(
    strings: list[str], tokens: list[int], found: str
) -> None:
    numbers = [TokenId(token) for token in tokens]
    search = StopSearch([b"the e", b"nd"], strings=strings, tokens=numbers, include=False)
    assert [search.read_token(TokenId(index)) for index in range(2)] == [False, True]
    assert search.found == found


def test_a_string_inside_a_stop_token_comes_first() -> None:
    assert read([b"ab", b"cde"], ["d"], [1]) == (2, 3)


@pytest.mark.parametrize(
    ("pieces", "strings", "tokens", "expected"),
    [
        ([b"final", b"|", b"a final", b"."], ["final"], [], (3, 8)),
        ([b"final", b"|", b"al"], ["l|a", "|"], [], (3, None)),
        ([b"fin", b"al|end", b"."], ["end"], [], (2, 6)),
        ([b"end", b"e|", b"|"], ["|"], [0, 1], (2, 3)),
        ([b"no opening", b"end"], ["end"], [1], (2, None)),
        ([b"x", b"|", b"|"], ["|"], [], (3, 2)),
    ],
)
def test_stops_count_behind_an_opening(
    pieces: list[bytes], strings: list[str], tokens: list[int], expected: tuple[int, int | None]
) -> None:
    numbers = [TokenId(token) for token in tokens]
    search = StopSearch(pieces, strings=strings, tokens=numbers, include=False, opening="|")
    count = next((n for n in range(len(pieces)) if search.read_token(TokenId(n))), len(pieces) - 1)
    assert (count + 1, search.length) == expected


@pytest.mark.parametrize(
    ("pieces", "after", "expected"),
    [
        ([b"the end", b" or", b" end"], 0, (1, 4)),
        ([b"the end", b" or", b" end"], 1, (3, 11)),
        ([b"the end", b" or", b" end"], 3, (3, None)),
        ([b"the e", b"nd", b"."], 1, (2, 4)),  # it begins before, and ends later
        ([b"the e", b"nd", b"."], 2, (3, None)),
    ],
)
def test_what_is_complete_within_the_first_tokens_ends_nothing(
    pieces: list[bytes], after: int, expected: tuple[int, int | None]
) -> None:
    search = StopSearch(pieces, strings=["end"], tokens=[], include=False, after=after)
    heard = [search.read_token(TokenId(n)) for n in range(expected[0])]
    assert heard[-1] is (expected[1] is not None)
    assert not any(heard[:-1])
    assert search.length == expected[1]


def test_a_stop_token_among_the_first_tokens_ends_nothing() -> None:
    pieces = [b"a", b"b"]
    deaf = StopSearch(pieces, strings=[], tokens=[TokenId(0)], include=False, after=1)
    assert [deaf.read_token(TokenId(n)) for n in (0, 1, 0)] == [False, False, True]


def by_bytes(text: bytes, strings: list[str]) -> tuple[int | None, str]:
    """The oracle: look at every prefix of the text, the shortest first.

    It returns where the text ends, and the string that ends it.
    """
    for end in range(1, len(text) + 1):
        found = [string for string in strings if text[:end].endswith(string.encode())]
        if found:
            longest = max(found, key=len)
            return end - len(longest.encode()), longest
    return None, ""


@given(
    text=st.text("abcn", max_size=30),
    strings=st.lists(st.text("abcn", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_how_tokens_divide_the_text_does_not_matter(text: str, strings: list[str]) -> None:
    expected = by_bytes(text.encode(), strings)
    for tokens in (spell_bytes(text.encode()), [TokenId(2 + byte) for byte in text.encode()]):
        search = StopSearch(TOKEN_BYTES, strings=strings, tokens=[], include=False)
        for token in tokens:
            if search.read_token(token):
                break
        assert (search.length, search.found) == expected
