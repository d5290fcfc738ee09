"""Every spelling of a string in JSON, compared with json.loads."""

from __future__ import annotations

import functools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.regular.byte_dfa import ByteDfa, byte_dfa_from_dfa
from guided.regular.codepoints import CodePoints
from guided.regular.dfa import dfa_from_regular, length_dfa
from guided.regular.expression import Chars
from guided.regular.utf8 import any_json_string_sequences

_BORDERS = [
    0,
    0x20,
    0x22,
    0x2F,
    0x5C,
    0x80,
    0x800,
    0xABC,
    0xD7FF,
    0xE000,
    0xFFFF,
    0x10000,
    0x10FFFF,
]
_BORDERS += [0x103FF, 0x10400, 0xFFFFF]
_POINTS = st.one_of(
    st.integers(0, 0x10FFFF),
    st.builds(lambda a, b: a + b, st.sampled_from(_BORDERS), st.integers(-17, 17)),
).filter(lambda p: 0 <= p <= 0x10FFFF and not 0xD800 <= p <= 0xDFFF)


@functools.cache
def _any_character() -> ByteDfa:
    return byte_dfa_from_dfa(length_dfa(1, 1), any_json_string_sequences)


def _spellings(point: int) -> list[str]:
    """All spellings that json.loads reads as the code point, except escapes of mixed case."""
    character = chr(point)
    units = character.encode("utf-16-be").hex()
    escape = "".join("\\u" + units[i : i + 4] for i in range(0, len(units), 4))
    upper = escape.upper().replace("\\U", "\\u")
    short = {"/": "\\/", **{c: json.dumps(c)[1:-1] for c in '\b\t\n\f\r"\\'}}
    raw = [character] if point >= 0x20 and character not in '"\\' else []
    return [escape, upper, *raw, *([short[character]] if character in short else [])]


@settings(deadline=None)
@given(_POINTS, _POINTS, _POINTS)
def test_a_range_is_spelled_in_every_way_that_reads_as_one_of_its_characters(
    a: int, b: int, point: int
) -> None:
    low, high = sorted((a, b))
    block = byte_dfa_from_dfa(
        dfa_from_regular(Chars(CodePoints.from_ranges([(low, high)]))), any_json_string_sequences
    )
    for near in {low, high, point, min(low + 1, high), max(high - 1, low)}:
        if 0xD800 <= near <= 0xDFFF:
            continue
        for text in _spellings(near):
            assert json.loads(f'"{text}"') == chr(near)
            assert (block.run(text.encode()) == 0) == (low <= near <= high), text


_NEAR_BORDERS = sorted({b + d for b in _BORDERS for d in (-2, -1, 0, 1, 2)})


@pytest.mark.parametrize(
    "point", [p for p in _NEAR_BORDERS if 0 <= p < 0xD800 or 0xDFFF < p <= 0x10FFFF]
)
def test_characters_at_the_borders_have_all_their_spellings(point: int) -> None:
    for text in _spellings(point):
        assert _any_character().run(text.encode()) == 0, text


@settings(deadline=None)
@given(
    st.from_regex(r'\\(u[0-9a-fA-F]{4}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|.)|[^"\\]', fullmatch=True)
)
def test_what_is_accepted_is_what_json_reads_as_one_character(text: str) -> None:
    try:
        value = json.loads(f'"{text}"')
        expected = len(value) == 1 and not 0xD800 <= ord(value) <= 0xDFFF
    except ValueError:
        expected = False
    assert (_any_character().run(text.encode("utf-8", "surrogatepass")) == 0) == expected


@pytest.mark.parametrize(
    "text",
    [
        rb"\ud800",
        rb"\udc00",
        rb"\ude00\ud83d",
        rb"\ud83d\u0041",
        rb"\x41",
        rb"\u12",
        b"\n",
        b'"',
        b"\\",
    ],
)
def test_half_a_pair_and_what_is_no_spelling_are_rejected(text: bytes) -> None:
    assert _any_character().run(text) is None


def test_escapes_may_mix_cases() -> None:
    assert _any_character().run(rb"\uaBcD") == 0
    assert _any_character().run(rb"\uD83d\udE00") == 0
