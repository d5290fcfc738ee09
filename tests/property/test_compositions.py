"""Masks of random constraints made of constraints, held against their texts counted out."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from guided.constraint import ConstraintCompiler
from guided.constraint.matcher import Matcher
from guided.spec import Forcing, Structure
from guided.tokens.mask import tokens_of
from tests.kit.compositions import random_composition
from tests.kit.tiny_vocabulary import tiny_vocabulary
from tests.kit.walks import END, random_walk, tried

_VOCABULARY = tiny_vocabulary(
    (b"10", b"1,", b'"a', b'":', b'{"', b'{"a":', b'"}', b"]1", b"}1", b"0.5", b'a"', b"ab", b'","')
)
_COMPILER = ConstraintCompiler(_VOCABULARY)
_COMPOSITIONS = 300


def _drawn(seed: int) -> tuple[Structure, frozenset[bytes]]:
    constraint, texts = random_composition(random.Random(seed))
    return constraint, frozenset(text.encode() for text in texts)


def _walks() -> Iterator[tuple[bytes, Matcher, frozenset[bytes]]]:
    for seed in range(_COMPOSITIONS):
        constraint, texts = _drawn(seed)
        rng = random.Random(seed)
        start = _COMPILER.start(constraint)
        walk = random_walk(start, rng, rng.randrange(1, 20))
        for place, matcher in enumerate(walk.matchers):
            yield _VOCABULARY.decode(walk.tokens[:place]), matcher, texts


def test_a_mask_holds_what_begins_a_text() -> None:
    for begun, matcher, texts in _walks():
        rests = {text[len(begun) :] for text in texts if text.startswith(begun)}
        expected = {
            token
            for token, spelled in enumerate(_VOCABULARY.token_bytes)
            if spelled is not None and any(rest.startswith(spelled) for rest in rests)
        }
        if b"" in rests:
            expected.add(END)
        assert set(tokens_of(matcher.mask()).tolist()) == expected, (begun, texts)
        assert matcher.is_accepting == (b"" in rests)
        assert matcher.is_complete == (rests == {b""})


def test_the_shortest_end_is_a_shortest_text() -> None:
    for begun, matcher, texts in _walks():
        end = _VOCABULARY.decode(matcher.shortest_end())
        assert begun + end in texts
        shortest = min(len(text) for text in texts if text.startswith(begun))
        assert len(begun + end) <= shortest + 2, (begun, end)


def test_forced_bytes_are_those_that_all_texts_go_on_with() -> None:
    for begun, matcher, texts in _walks():
        forced = _VOCABULARY.decode(matcher.forced_run(Forcing.CANONICAL))
        rests = {text[len(begun) :] for text in texts if text.startswith(begun)}
        assert all(rest.startswith(forced) for rest in rests), (begun, forced)


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_in_its_budget_ends_inside_it(seed: int) -> None:
    constraint, texts = _drawn(seed)
    start, rng = _COMPILER.start(constraint), random.Random(seed)
    budget = len(start.shortest_end()) + rng.randrange(6)
    walk = random_walk(start, rng, 0, budget)
    assert len(walk.tokens) <= budget
    assert _VOCABULARY.decode(walk.tokens) in texts


def test_a_mask_within_a_budget_holds_what_fits() -> None:
    for seed in range(60):
        constraint, texts = _drawn(seed)
        rng = random.Random(seed)
        walk = random_walk(_COMPILER.start(constraint), rng, rng.randrange(1, 12))
        for place, matcher in enumerate(walk.matchers):
            begun = _VOCABULARY.decode(walk.tokens[:place])
            budget = len(matcher.shortest_end()) + rng.randrange(3)
            kept = set(tokens_of(matcher.mask_within(budget)).tolist())
            reached = tried(matcher, range(1, len(_VOCABULARY)))
            fitting = {token for token in reached if reached[token].fits(budget - 1)}
            assert kept - {END} == fitting, (begun, texts)
            assert (END in kept) == matcher.is_accepting
