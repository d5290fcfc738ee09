"""Streamed text is never taken back, and its pieces make up the text of the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.decoding import StopSearch
from guided.decoding.stop_strings import PartialMatches
from guided.engine.text_stream import TextStream
from guided.spec import TokenId


def stream(
    pieces: list[bytes],
    stops: list[str],
    *,
    include: bool = False,
    stop_tokens: tuple[int, ...] = (),
) -> tuple[list[str], str]:
    """The deltas, one piece per step, and the text of the whole answer; each piece is a token."""
    tokens = [TokenId(token) for token in stop_tokens]
    search = StopSearch(pieces, strings=stops, tokens=tokens, include=include)
    held = [] if include else [stop.encode() for stop in stops]
    growing = TextStream(pieces, start=0, held_back=held, errors="replace")
    deltas: list[str] = []
    for index in range(len(pieces)):
        read = [TokenId(token) for token in range(index + 1)]
        if search.read_token(TokenId(index)) or index + 1 == len(pieces):
            deltas.append(growing.end(read, search.length))
            text = b"".join(pieces[: index + 1])[: search.length]
            return deltas, text.decode(errors="replace")
        deltas.append(growing.grow(read))
    raise AssertionError("no pieces")


@pytest.mark.parametrize(
    ("pieces", "stops", "deltas"),
    [
        ([b"th", b"e e", b"n", b"d"], ["end"], ["th", "e ", "", ""]),
        ([b"th", b"e e", b"n", b"t"], ["end"], ["th", "e ", "", "ent"]),
        ([b"een", b"end"], ["end"], ["e", "en"]),
        ([b"a", b"b", b"a", b"b", b"c"], ["ababd"], ["", "", "", "", "ababc"]),
        ([b"aaa", b"c"], ["aab"], ["a", "aac"]),
        ([b"\xe8", b"\xaa", b"\x9e!"], [], ["", "", "語!"]),
        ([b"x\xc3", b"\xa9y"], ["éz"], ["x", "éy"]),
        ([b"x\xc3", b"\xa9z"], ["éz"], ["x", ""]),
        ([b"a\xff", b"\xc3"], [], ["a\ufffd", "\ufffd"]),
        ([b"no stop e"], ["end"], ["no stop e"]),
    ],
)
def test_only_what_is_certain_is_sent(
    pieces: list[bytes], stops: list[str], deltas: list[str]
) -> None:
    assert stream(pieces, stops)[0] == deltas


@given(
    st.lists(
        st.text("aé", min_size=1, max_size=4).flatmap(
            lambda text: st.just(text.encode()) | st.binary(min_size=1, max_size=3)
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.text("aé\x00", min_size=1, max_size=5), max_size=3),
    st.booleans(),
    st.lists(st.integers(0, 7), max_size=1).map(tuple),
)
def test_all_deltas_together_are_the_text(
    pieces: list[bytes], stops: list[str], include: bool, stop_tokens: tuple[int, ...]
) -> None:
    deltas, text = stream(pieces, stops, include=include, stop_tokens=stop_tokens)
    assert "".join(deltas) == text


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=6), max_size=3))
def test_what_is_held_is_the_longest_beginning_that_the_text_ends_with(
    text: str, strings: list[str]
) -> None:
    beginnings = PartialMatches(string.encode() for string in strings)
    held = beginnings.read(text[:5].encode())
    held = beginnings.read(text[5:].encode())
    proper = [string[:n] for string in strings for n in range(len(string))]
    assert held == max((len(one) for one in proper if text.endswith(one)), default=0)


def test_a_long_stop_string_costs_as_much_as_is_written_of_it() -> None:
    """Twenty bytes; preparing all sixteen million would take seconds."""
    beginnings = PartialMatches([b"ab" * 2**23])
    assert beginnings.read(b"ab" * 10) == 20
