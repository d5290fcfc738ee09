"""Look-around at the edges of a terminal is separated from its texts."""

from __future__ import annotations

import pytest

from guided.errors import LimitExceededError, UnsupportedFeatureError
from guided.regular.dfa import dfa_from_regular
from guided.regular.expression import Concat, Look, Regular
from guided.regular.patterns.python import parse_python_regex
from guided.regular.patterns.terminal_edges import split_edges
from guided.runtime.work_budget import limited_work


def _format(look: Look) -> str:
    symbol = ("=", "!")[look.negative]
    return f"(?{'' if look.ahead else '<'}{symbol}{_characters(look.item)})"


def _characters(item: Regular) -> str:
    return "".join(letter for letter in "abc" if dfa_from_regular(item).accepts(letter))


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        # Inside of a terminal it is a part of the text.
        (r"a(?=b)b", ["ab"]),
        (r"a.*?(?<!a)b", ["abb"]),
        (r"(?!ab\b)[ab]+", ["a", "b", "aab"]),
        (r"(?:a(?!b))*c", ["c", "ac", "aac"]),
        # At its edges it is not.
        (r"a(?=b)", ["a (?=b)"]),
        (r"a(?=b(?<=b))", ["a (?=b)"]),
        (r"a(?=(?:b|c)(?<![ac]))", ["a (?=b)"]),
        (r"(?<!a)b", ["(?<!a) b"]),
        (r"(?:a|b(?!c))", ["a", "b (?!c)"]),
        (r"(?<=a)(?<!b)a(?=b)(?!c)", ["(?<=a)(?<!b) a (?=b)(?!c)"]),
        (r"a(?:(?!b))+", ["a (?!b)"]),
        (r"a(?:(?!b)){3}", ["a (?!b)"]),
        (r"(?:a(?!b)){2,}", ["aa (?!b)", "aaa (?!b)"]),
        # An optional part is a choice of both.
        (r"a(?!b)c?", ["a (?!b)", "ac"]),
        (r"a(?!b)c*", ["a (?!b)", "ac", "acc"]),
        (r"(?:b|)(?<!a)a", ["(?<!a) a", "ba"]),
        (r"(?:a(?!b))?", [" (nothing)", "a (?!b)"]),
    ],
)
def test_pieces(pattern: str, pieces: list[str]) -> None:
    found = set[str]()
    for before, regular, after in split_edges(parse_python_regex(pattern)):
        dfa = dfa_from_regular(regular)
        around = ("".join(map(_format, before)), "".join(map(_format, after)))
        texts = ["a", "b", "c", "aa", "ab", "ba", "ac", "aaa", "aab", "aac", "abb", "acc", "aaaa"]
        for text in ("", *texts):
            if dfa.accepts(text):
                found.add(" ".join((around[0], text or "(nothing)", around[1])).rstrip())
    for piece in pieces:
        assert (piece if piece.startswith(("(?", " ")) else f" {piece}") in found, found
    assert any(" (?" in each or each.startswith("(?") for each in found) == (
        "(?" in "".join(pieces)
    )


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"a(?=\b)", "look-around in look-around"),
        (r"(?<=a(?!b))b", "look-around in look-around"),
        # It would see back beyond the edge.
        (r"a(?=x(?<=ax))", "look-around in look-around"),
        (r"a(?=xy?(?<=axy))", "look-around in look-around"),
        (r"a(?!x(?<!a+x))", "look-around in look-around"),
        (r"(?<=(?!xxa)xx)a", "look-around in look-around"),
        (r"(?<=b(?!a)b?)a", "look-around in look-around"),
        (r"a*?(?=bb)", "a lazy repeat before a look-ahead"),
        (r"(?:a(?=b))*?", "in a lazy repeat"),
        # Where a lazy repeat ends depends on all cases of what follows, and pieces have one each.
        (r".*?(?:;|(?=b))", "a lazy repeat before alternatives"),
        (r"[ab]*?(?!b)c?", "a lazy repeat before alternatives"),
        (r"(?:x.*?(?:;|(?=b)))+", "a lazy repeat before alternatives"),
        (r"(?:a?(?!b))+", "beside such an optional part"),
        (r"a(?!b)(?:c?c?){0,2}", "beside such an optional part"),
    ],
)
def test_what_cannot_be_parted_is_refused(pattern: str, what: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=what):
        split_edges(parse_python_regex(pattern))


def test_the_number_of_pieces_is_bounded() -> None:
    with pytest.raises(LimitExceededError, match="cases"):
        split_edges(parse_python_regex("".join(r"(?:(?!a)|(?!b))" for _ in range(12))))


@pytest.mark.parametrize("pattern", ["a" * 19_000 + "(?!b)", "(?!b)" * 3_000 + "a(?!b)"])
def test_long_terminals_are_parted_in_time_and_do_not_nest(pattern: str) -> None:
    (piece,) = split_edges(parse_python_regex(pattern))
    assert isinstance(piece.regular, Concat)
    assert not any(isinstance(part, Concat) for part in piece.regular.parts[1:])
    assert len(piece.after) == 1


def test_so_many_optional_parts_at_an_edge_are_refused() -> None:
    with limited_work(1_000_000), pytest.raises(LimitExceededError, match="more than 200 cases"):
        split_edges(parse_python_regex("x(?!b)" + "a?" * 3_000))
    with limited_work(100_000), pytest.raises(LimitExceededError, match="units of work"):
        split_edges(parse_python_regex("a?" * 3_000 + "(?!b)"))


def test_a_lazy_repeat_before_a_long_text_does_not_nest() -> None:
    (piece,) = split_edges(parse_python_regex("a*?" + "b" * 2_000))
    assert dfa_from_regular(piece.regular).accepts("aa" + "b" * 2_000)
