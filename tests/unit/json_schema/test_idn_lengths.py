"""Labels of one alphabet: the longest A-label for a number of characters (RFC 3492)."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import idna
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.json_schema.reader.formats import format_regular
from guided.json_schema.reader.host_names import ALPHABETS, MAX_ALPHABET_LABEL
from guided.json_schema.reader.punycode import INITIAL_BIAS, INITIAL_N, adapt_bias
from guided.regular.dfa import Dfa, dfa_from_regular

_LONGEST = 63
_PREFIX = len("xn--")
_BIASES = 256


def _digits(number: int, bias: int) -> int:
    """The number of digits that a number is written with (section 6.3)."""
    count, position = 1, 36
    while number >= (threshold := min(max(position - bias, 1), 26)):
        number = (number - threshold) // (36 - threshold)
        count, position = count + 1, position + 36
    return count


def _largest(numbers: range, length: int, *, first: bool = False) -> Iterator[tuple[int, int]]:
    """By the bias that results, the largest number, which has the most digits."""
    found = {adapt_bias(number, length, first=first): number for number in numbers}
    yield from found.items()


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_labels_of_one_alphabet_fit_whatever_their_letters(alphabet: tuple[int, int]) -> None:
    """All steps from one length to the next, by the last letter and the bias."""
    first, last = alphabet
    width = last - first + 1
    # The most characters, 0 for none: [letter, bias]
    most = np.zeros((width, _BIASES), dtype=np.int64)
    for length in range(1, MAX_ALPHABET_LABEL + 1):
        longer = np.zeros_like(most)
        # Everything before it is ASCII, followed by a hyphen.
        before = _PREFIX + length - 1 + (length > 1)
        for letter in range(width):
            low = (first + letter - INITIAL_N) * length
            for bias, number in _largest(range(low, low + length), length, first=True):
                longer[letter, bias] = before + _digits(number, INITIAL_BIAS)
        biases = np.flatnonzero(most.any(axis=0))
        for on in range(width):
            low = max(0, on * length - length + 1)
            for bias, number in _largest(range(low, on * length + length), length):
                for old in biases:
                    left = most[: width - on, old]
                    made = np.where(left, left + _digits(number, int(old)), 0)
                    longer[on:, bias] = np.maximum(longer[on:, bias], made)
        most = longer
        assert most.max() <= _LONGEST, length
    assert most.max() > _LONGEST - 12  # not far from it


_LABELS = st.sampled_from(ALPHABETS).flatmap(
    lambda bounds: st.text(
        st.one_of(st.characters(min_codepoint=bounds[0], max_codepoint=bounds[1]))
        | st.sampled_from("abcxyz019-"),
        min_size=1,
        max_size=MAX_ALPHABET_LABEL,
    )
)


@functools.cache
def _dfa(name: str) -> Dfa:
    regular = format_regular(name)
    assert regular is not None
    return dfa_from_regular(regular, search=True)


@settings(deadline=None, max_examples=300)
@given(_LABELS)
def test_labels_of_one_alphabet_are_those_that_idna_encodes(label: str) -> None:
    accepted = _dfa("idn-hostname").accepts(label)
    try:
        encoded = idna.encode(label)
    except idna.IDNAError:
        assert not accepted
        return
    assert len(encoded) <= _LONGEST
    assert accepted or "--" in label


@pytest.mark.parametrize("name", ["düsseldorf.de", "δοκιμή.παράδειγμα", "почтамт-онлайн.рф"])
def test_names_of_everyday_length_are_accepted(name: str) -> None:
    assert _dfa("idn-hostname").accepts(name)
    assert _dfa("idn-email").accepts(f"a@{name}")
