"""Positions: each exists once, moves are look-ups, and their number is bounded."""

from __future__ import annotations

import gc
import threading

import pytest

from guided.constraint import ConstraintCompiler, ConstraintLimits
from guided.errors import TokenRejectedError
from guided.masks.compiled import ConstraintMatcher
from guided.spec import JsonSchema, TokenId
from tests.kit.tiny_vocabulary import tiny_vocabulary
from tests.kit.tokenizers import real_vocabulary

_VOCABULARY = tiny_vocabulary()
_STRINGS = JsonSchema('{"type": "array", "items": {"type": "string", "maxLength": 40}}')
_TEXT = b'["abc","a","","abc"]'


def _follow(matcher: ConstraintMatcher, text: bytes) -> list[ConstraintMatcher]:
    reached = [matcher]
    for byte in text:
        matcher.mask()
        matcher = matcher.advance(_VOCABULARY.byte_ids[byte])
        reached.append(matcher)
    return reached


def test_the_same_text_leads_to_the_same_positions_and_masks() -> None:
    compiled = ConstraintCompiler(_VOCABULARY).compile(_STRINGS)
    first, again = (_follow(compiled.start(), _TEXT) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert one.position is other.position
        assert compiled.mask(one.position) is compiled.mask(other.position)
        assert one == other


def test_matchers_are_equal_only_where_runs_are_spelled_alike() -> None:
    vocabulary = real_vocabulary("smollm2")
    start = ConstraintCompiler(vocabulary).compile(_STRINGS).start()
    after = {}
    for text in ('["a', '["bc', '["&'):
        matcher = start
        for token in vocabulary.spell(text):
            matcher = matcher.advance(TokenId(token))
        after[text] = matcher
    assert after['["a'] != after['["bc']  # the string is longer
    assert after['["a'].state == after['["&'].state
    assert after['["a'] != after['["&']  # a quote after a letter is a separate piece


def test_a_rejected_token_leaves_no_trace() -> None:
    start = ConstraintCompiler(_VOCABULARY).compile(_STRINGS).start()
    for _ in range(2):
        with pytest.raises(TokenRejectedError):
            start.advance(_VOCABULARY.byte_ids[ord("x")])
    assert not start.position.after


def test_positions_are_bounded_and_old_ones_are_let_go() -> None:
    compiler = ConstraintCompiler(_VOCABULARY, ConstraintLimits(max_positions=10))
    compiled = compiler.compile(_STRINGS)
    matchers = _follow(compiled.start(), b'["' + b"x" * 40 + b'"]')
    assert matchers[-1].is_complete
    assert len(compiled._positions) <= 10
    del matchers
    gc.collect()
    assert len(_follow(compiled.start(), _TEXT)) == len(_TEXT) + 1


def test_threads_that_share_a_constraint_agree() -> None:
    expected = [m.mask().tolist() for m in _follow(_fresh_start(), _TEXT)]
    start = _fresh_start()
    found: list[list[list[int]]] = []

    def run() -> None:
        found.append([m.mask().tolist() for m in _follow(start, _TEXT)])

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def _fresh_start() -> ConstraintMatcher:
    return ConstraintCompiler(_VOCABULARY).compile(_STRINGS).start()


def test_a_forced_run_is_remembered_by_what_stands_before_it() -> None:
    from guided.spec import Forcing

    start = ConstraintCompiler(_VOCABULARY).compile(JsonSchema('{"const": "abc"}')).start()
    run = start.forced_run(Forcing.CANONICAL)
    assert _VOCABULARY.decode(run) == b'"abc"'
    assert start.position.runs == {b"": run}
    assert start.forced_run(Forcing.CANONICAL) is run
    assert all(isinstance(token, int) for token in run)
    assert TokenId(run[0]) == run[0]
