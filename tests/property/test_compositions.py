"""Masks of random constraints made of constraints, compared with their enumerated texts."""

from __future__ import annotations

import random
from functools import cache

import pytest

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.masks.mask import mask_of, tokens_of
from guided.masks.matcher import Matcher
from guided.spec import Forcing, JsonSchema, Structure
from guided.spec.composition import AnyOf, Sequence
from tests.kit.compositions import random_composition
from tests.kit.tiny_vocabulary import tiny_vocabulary
from tests.kit.walks import END, random_walk, tried

_VOCABULARY = tiny_vocabulary(
    (b"10", b"1,", b'"a', b'":', b'{"', b'{"a":', b'"}', b"]1", b"}1", b"0.5", b'a"', b"ab", b'","')
)
_COMPILER = ConstraintCompiler(_VOCABULARY)
_TOKENS = {text: token for token, text in enumerate(_VOCABULARY.token_bytes) if text is not None}
_LENGTHS = range(1, max(map(len, _TOKENS)) + 1)
_COMPOSITIONS = 300


def _drawn(seed: int) -> tuple[Structure, frozenset[bytes]]:
    constraint, texts = random_composition(random.Random(seed))
    return constraint, frozenset(text.encode() for text in texts)


def _beginning(texts: frozenset[bytes], begun: bytes) -> set[int]:
    """The tokens with which one of the texts continues, or the end."""
    rests = {text[len(begun) :] for text in texts if text.startswith(begun)}
    beginnings = {rest[:length] for rest in rests for length in _LENGTHS}
    tokens = {_TOKENS[begun] for begun in beginnings & _TOKENS.keys()}
    return tokens | {END} if b"" in rests else tokens


@cache
def _walks() -> list[tuple[bytes, Matcher, frozenset[bytes]]]:
    """Positions, each after a text, with all texts of its constraint."""
    found = []
    for seed in range(_COMPOSITIONS):
        constraint, texts = _drawn(seed)
        rng = random.Random(seed)
        start = _COMPILER.start(constraint)
        walk = random_walk(start, rng, rng.randrange(1, 20))
        for place, matcher in enumerate(walk.matchers):
            found.append((_VOCABULARY.decode(walk.tokens[:place]), matcher, texts))
    return found


def test_a_mask_holds_what_begins_a_text() -> None:
    for begun, matcher, texts in _walks():
        expected = _beginning(texts, begun)
        assert set(tokens_of(matcher.mask()).tolist()) == expected, (begun, texts)
        assert matcher.is_accepting == (END in expected)
        assert matcher.is_complete == (expected == {END})


@pytest.mark.parametrize(("masks", "positions"), [(0, 3), (2, 16_000), (2, 3), (8, 10)])
def test_masks_that_were_let_go_come_back_the_same(masks: int, positions: int) -> None:
    nbytes = masks * mask_of(len(_VOCABULARY), []).nbytes
    compiler = ConstraintCompiler(
        _VOCABULARY, ConstraintLimits(max_mask_bytes=nbytes, max_positions=positions)
    )
    for seed in range(60):
        constraint, texts = _drawn(seed)
        start, rng = compiler.start(constraint), random.Random(seed)
        met: list[tuple[bytes, Matcher]] = []
        for _ in range(3):
            walk = random_walk(start, rng, rng.randrange(1, 12))
            met += (
                (_VOCABULARY.decode(walk.tokens[:place]), matcher)
                for place, matcher in enumerate(walk.matchers)
            )
        rng.shuffle(met)
        for begun, matcher in met:
            found = set(tokens_of(matcher.mask()).tolist())
            assert found == _beginning(texts, begun), (seed, begun)


def test_the_shortest_end_is_a_shortest_text() -> None:
    for begun, matcher, texts in _walks():
        end = _VOCABULARY.decode(matcher.shortest_completion())
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
    budget = len(start.shortest_completion()) + rng.randrange(6)
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
            budget = len(matcher.shortest_completion()) + rng.randrange(3)
            kept = set(tokens_of(matcher.mask_within(budget)).tolist())
            reached = tried(matcher, range(1, len(_VOCABULARY)))
            fitting = {token for token in reached if reached[token].can_complete_within(budget - 1)}
            assert kept - {END} == fitting, (begun, texts)
            assert (END in kept) == matcher.is_accepting


def test_a_budget_holds_for_parses_that_end_in_fewer_tokens_but_more_bytes() -> None:
    """After a quote two parses are one state: the shorter text of these takes more tokens."""
    vocabulary = tiny_vocabulary([b"cccc"])
    start = ConstraintCompiler(vocabulary).start(
        AnyOf(
            [
                Sequence([JsonSchema('{"enum": ["a", "b"]}'), "cccc"]),
                Sequence([JsonSchema('{"const": "a"}'), "ab"]),
                '"az',
            ]
        )
    )
    for seed in range(100):
        walk = random_walk(start, random.Random(seed), 0, 4)
        for place, matcher in enumerate(walk.matchers[:-1]):
            kept = set(tokens_of(matcher.mask_within(4 - place)).tolist())
            reached = tried(matcher, range(1, len(vocabulary)))
            assert kept == {one for one in reached if reached[one].can_complete_within(3 - place)}
