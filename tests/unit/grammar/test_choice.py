"""One of a list of texts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import InvalidConstraintError, LimitExceededError
from guided.regular.dfa import dfa_from_regular
from guided.regular.expression import Alternate, Graph
from guided.regular.word_graph import word_graph
from guided.spec import Choice
from tests.kit.walks import BYTES, accepts, random_walk

_LETTERS = st.text("abé", max_size=5)


@settings(max_examples=150, deadline=None)
@given(st.sets(_LETTERS, min_size=1, max_size=12), st.sets(_LETTERS, max_size=20))
def test_a_word_graph_has_exactly_its_texts(texts: set[str], others: set[str]) -> None:
    dfa = dfa_from_regular(word_graph(texts))
    dfa.check()
    for text in texts | others:
        assert dfa.accepts(text) == (text in texts), text


@settings(max_examples=50, deadline=None)
@given(st.sets(_LETTERS, min_size=1, max_size=12))
def test_a_word_graph_is_minimal(texts: set[str]) -> None:
    graph = word_graph(texts)
    if isinstance(graph, Alternate):  # the empty text is an alternative to the graph
        (graph, _) = graph.options
    assert isinstance(graph, Graph)
    # One more state in which texts end, possibly beside one that also continues.
    assert graph.count <= len(dfa_from_regular(word_graph(texts))) + 2


@pytest.mark.parametrize(
    ("options", "others"),
    [
        (["yes", "no"], ["", "y", "yesno", "nope"]),
        (["a", "ab", "abc", ""], ["b", "ac", "abcd"]),
        (["naïve 😀", "naïv"], ["naive", "naïve "]),
        (["same", "same"], ["", "samesame"]),
    ],
)
def test_an_answer_is_one_of_the_options(options: list[str], others: list[str]) -> None:
    start = ConstraintCompiler(BYTES).start(Choice(options))
    for option in options:
        assert accepts(start, option.encode()), option
    for other in others:
        assert not accepts(start, other.encode()), other
    for seed in range(10):
        walk = random_walk(start, random.Random(seed), 50)
        assert bytes(token - 1 for token in walk.tokens).decode() in options


def test_a_hundred_thousand_options_are_taken_or_refused() -> None:
    compiler = ConstraintCompiler(BYTES)
    start = compiler.start(Choice(f"item {number}" for number in range(100_000)))
    assert accepts(start, b"item 99999")
    assert not accepts(start, b"item 100000")
    rng = random.Random(0)
    with pytest.raises(LimitExceededError, match="states"):
        compiler.start(Choice("".join(rng.choices("abcdefgh", k=12)) for _ in range(100_000)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no options"),
        ("yes", "pass a list of texts"),
        (["a", 1], "the option 1 is no text"),
        (["a", "b\ud800"], "surrogate"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(options: list[str], message: str) -> None:
    with pytest.raises(InvalidConstraintError, match=message):
        ConstraintCompiler(BYTES).start(Choice(options))


def test_equal_lists_have_equal_digests() -> None:
    assert Choice(["a", "b"]).digest() == Choice(("a", "b")).digest()
    assert Choice(["ab"]).digest() != Choice(["a", "b"]).digest()
