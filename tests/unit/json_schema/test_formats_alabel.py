"""A-labels: every accepted one is valid for the package idna, and which ones are accepted."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator

import idna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.json_schema.reader.punycode import (
    END,
    INITIAL_BIAS,
    INITIAL_N,
    GraphBuilder,
    hebrew_labels,
    mixed_labels,
    short_labels,
)
from guided.regular.dfa import DEAD, Dfa, dfa_from_regular
from guided.regular.expression import Concat, End, Graph, Start

_GRAPHS = (mixed_labels, short_labels, hebrew_labels)
_ASCII = "abcdefghijklmnopqrstuvwxyz0123456789"


@functools.cache
def _dfa(build: Callable[[], Graph]) -> Dfa:
    return _whole(build())


def _whole(graph: Graph) -> Dfa:
    return dfa_from_regular(Concat((Start(), graph, End())), search=True)


def _accepts(label: str) -> bool:
    encoded = label.encode("punycode").decode()
    return any(_dfa(build).accepts(encoded) for build in _GRAPHS)


def _is_valid(encoded: str) -> bool:
    """Whether it can be decoded, to a text that encodes to it again."""
    label = "xn--" + encoded
    try:
        return bool(idna.encode(idna.decode(label, strict=True)) == label.encode())
    except idna.IDNAError:
        return False


@pytest.mark.parametrize(
    "label",
    [
        *("münchen", "ß", "straßen-fest", "0۰", "é" + "a" * 30, "l·l", "paral·lel", "allol·l"[2:]),
        *("・ぁ", "・ァ", "ア・", "・丈", "丈", "みず", "コー", "の木", "קום", "א׳ב", "א״"),
    ],
)
def test_labels_with_few_code_points_outside_of_ascii_are_accepted(label: str) -> None:
    assert _accepts(label)
    assert _is_valid(label.encode("punycode").decode())


@pytest.mark.parametrize(
    "label",
    [
        *("Ä", "÷", "a·l", "l·", "·l", "-ß", "ß-", "aa--ß", "・", "・・", "・ー", "׳א", "א-", "אa"),
        *("example", "゙", "〱", "㐀" * 2, "é" + "a" * 31, "größe"),
    ],
)
def test_labels_that_are_invalid_or_beyond_what_is_told_are_refused(label: str) -> None:
    assert not _accepts(label)


@pytest.mark.parametrize(
    "encoded", ["", "x", "-9uc", "mnchen-3y", "Mnchen-3ya", "mnchen-3ya-", "mnchen-3yaa"]
)
def test_what_is_no_punycode_is_refused(encoded: str) -> None:
    assert not any(_dfa(build).accepts(encoded) for build in _GRAPHS)


def test_every_hebrew_label_that_is_accepted_is_valid() -> None:
    accepted = list(_members(_dfa(hebrew_labels)))
    assert len(accepted) > 20_000
    assert [encoded for encoded in accepted if not _is_valid(encoded)] == []


@pytest.mark.parametrize("build", _GRAPHS)
def test_whatever_is_accepted_is_valid(build: Callable[[], Graph]) -> None:
    rng = random.Random(0)
    walks = [_walk(_dfa(build), rng) for _ in range(3_000)]
    assert [encoded for encoded in walks if not _is_valid(encoded)] == []


@given(st.text(_ASCII, max_size=30), st.sampled_from("ßàöøÿ۰۹"), st.integers(0, 30))
def test_one_code_point_may_stand_anywhere(rest: str, letter: str, place: int) -> None:
    assert _accepts(rest[:place] + letter + rest[place:])


def test_all_pairs_of_kana_are_accepted() -> None:
    kana = [chr(c) for c in (*range(0x3041, 0x3097), *range(0x30A1, 0x30FB))]
    assert all(_accepts("".join(pair)) for pair in itertools.product(kana, repeat=2))


@given(st.integers(0, 5_000), st.integers(0, 60))
def test_a_number_is_written_as_punycode_writes_it(low: int, size: int) -> None:
    """The texts of one code point are the numbers themselves."""
    builder = GraphBuilder()
    dfa = _whole(builder.build(builder.add_delta([(low, low + size, END)], INITIAL_BIAS)))
    wanted = {chr(INITIAL_N + n).encode("punycode").decode() for n in range(low, low + size + 1)}
    assert set(_members(dfa)) == wanted


def _members(dfa: Dfa) -> Iterator[str]:
    """All texts that are accepted."""
    stack = [(0, "")]
    while stack:
        state, text = stack.pop()
        if dfa.label[state] != DEAD:
            yield text
        for chars, target in zip(dfa.classes, dfa.next[state].tolist(), strict=True):
            if target != DEAD:
                for low, high in chars.ranges:
                    stack += [(target, text + chr(c)) for c in range(low, high + 1)]


def _walk(dfa: Dfa, rng: random.Random) -> str:
    state, text = 0, ""
    while True:
        moves = [i for i, target in enumerate(dfa.next[state].tolist()) if target != DEAD]
        if not moves or (dfa.label[state] != DEAD and rng.random() < 0.3):
            return text
        index = rng.choice(moves)
        low, high = rng.choice(dfa.classes[index].ranges)
        state, text = int(dfa.next[state, index]), text + chr(rng.randint(low, high))
