"""Masks of random small grammars over a tiny vocabulary, compared with trying every token."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from guided.errors import LimitExceededError, UnsatisfiableError
from guided.grammar.lark import lower_lark
from guided.grammar.machine.grammar_machine import GrammarMachine
from guided.grammar.network import network_from_grammar
from guided.masks.binding import TokenBinding
from guided.masks.compiled import CompiledConstraint
from guided.masks.limits import ConstraintLimits
from guided.masks.mask import tokens_of
from guided.masks.mask_store import MaskStore
from guided.masks.matcher import Matcher
from guided.spec import Forcing, TokenId
from tests.kit.effort import times
from tests.kit.grammars import language, machine_of, random_grammar
from tests.kit.tiny_vocabulary import tiny_vocabulary
from tests.kit.walks import END, random_walk, tried

_VOCABULARY = tiny_vocabulary(
    (b"ab", b"ba", b"aab", b"abab", b"bbb", b"_a", b"a_", b"a_b_a", b"__")
)
_BINDING = TokenBinding.of(_VOCABULARY)
_TOKENS = range(1, len(_VOCABULARY))
_GRAMMARS = times(75)


def _starts() -> Iterator[tuple[Matcher, random.Random]]:
    limits = ConstraintLimits()
    for seed in range(_GRAMMARS):
        rng = random.Random(seed)
        rules, ignoring = random_grammar(rng), seed % 3 == 0
        try:
            machine = machine_of(rules, ignoring=ignoring)
        except UnsatisfiableError:
            continue
        masks = MaskStore(limits.max_mask_bytes)
        yield CompiledConstraint(machine, _BINDING, masks, limits).start(), rng


def _allowed(matcher: Matcher) -> set[int]:
    return set(tokens_of(matcher.mask()).tolist())


def test_a_mask_equals_trying_every_token() -> None:
    for start, rng in _starts():
        for matcher in random_walk(start, rng, rng.randrange(12)).matchers:
            expected: set[int] = set(tried(matcher, _TOKENS))
            assert _allowed(matcher) == (expected | {END} if matcher.is_accepting else expected)


_WORDS = tiny_vocabulary(
    (
        b"ab",
        b"a1",
        b"(a",
        b"a)",
        b"ab]",
        b"a1]",
        b"a, ",
        b" b",
        b"((",
        b"))",
        b"a))",
        b"b)]",
        b"a] )",
        b"(((",
        b")))",
        b")])))",
        b'("',
        b'("a',
        b'("a"',
        b'("ab")',
        b'("b"]',
        b'"a"',
    )
)
_WIDE = [
    # Texts that end with the same bytes in two rules, and in only one of them after a digit.
    'start: x | y\nx: "(" x ")" | /[a-z]+/\ny: "(" y "]" | /[a-z0-9]+/',
    'start: x\nx: "(" x ("," x)* ")" | "(" x "]" | /[a-z][a-z0-9]*/\n%ignore " "',
    'start: x\nx: x x | "(" x ")" | /[a-z]+/ | "a1" x "]"',
    # Names that are no key words: nearly all bytes lead to the same row.
    'start: x (" " x)*\nx: N | "(" x ")" | "ab" "]"\nN: /(?!(ab|a1)(?![a-z0-9]))[a-z][a-z0-9]*/',
    # Tokens that close more callers than a truncated stack knows.
    'start: x\nx: "(" x ")" | "((" x "])" | "(a" x "))" | /[ab]/',
    # Words at the end of a rule, followed by another word, or by the end of a caller as well.
    'start: x\nx: "(" x ")" | "(" x /[ab]+/ | "(" x "]" | /[ab]+/',
    'start: x\nx: "(" x ")" | "(" x "1" | "(" x "]" | /[ab]/ | /a1+/',
    # Strings that may have been called here or not, where tokens lead a long way into them.
    'start: x\nx: "(" x ")" | "(" S | S | "(" x "]"\nS: /"[^"]*"/',
]


@pytest.mark.parametrize("text", _WIDE)
def test_masks_of_words_that_many_stacks_share_are_exact(text: str) -> None:
    limits = ConstraintLimits()
    machine = GrammarMachine(network_from_grammar(lower_lark(text)))
    binding = TokenBinding.of(_WORDS)
    constraint = CompiledConstraint(machine, binding, MaskStore(limits.max_mask_bytes), limits)
    for seed in range(times(20)):
        rng = random.Random(seed)
        for matcher in random_walk(constraint.start(), rng, 12).matchers:
            expected: set[int] = set(tried(matcher, range(1, len(_WORDS))))
            assert _allowed(matcher) == (expected | {END} if matcher.is_accepting else expected)


# Words that leave two rules and call again, so that the truncated stack is the same again.
_BACK_AGAIN = """
start: "x" s "1" | "x" t "2"
s: "[" y | "[" y "p" s | "[" y "p" t | "<" s ">" | "<" s "]" s
t: "[" y | "[" y "q" s | "[" y "q" t | "!" t ":" | "!" t ";" t
y: "(" x | "{" y "}"
x: "a" | "-" x "+" | "-" x
"""
_LONG_WORDS = tiny_vocabulary(
    tuple(
        f"{first}[{inner}a{last}".encode()
        for first in "pq"
        for inner in ("(", "(-", "(--")
        for last in "12"
    )
)


@pytest.mark.parametrize("begun", [b"x[(a", b"x[(-a", b"x[(--a", b"x[(---a"])
def test_words_that_call_again_what_they_left_are_tried_in_every_stack(begun: bytes) -> None:
    limits = ConstraintLimits()
    machine = GrammarMachine(network_from_grammar(lower_lark(_BACK_AGAIN)))
    store = MaskStore(limits.max_mask_bytes)
    constraint = CompiledConstraint(machine, TokenBinding.of(_LONG_WORDS), store, limits)
    matcher = constraint.start()
    for byte in begun:
        matcher = matcher.advance(_LONG_WORDS.byte_ids[byte])
    assert _allowed(matcher) == set(tried(matcher, range(1, len(_LONG_WORDS))))


@pytest.mark.parametrize("text", _WIDE)
def test_all_work_for_a_mask_is_limited(text: str) -> None:
    machine = GrammarMachine(network_from_grammar(lower_lark(text)))
    binding = TokenBinding.of(_WORDS)
    store = MaskStore(ConstraintLimits().max_mask_bytes)
    ample, tight = (
        CompiledConstraint(machine, binding, store, limits)
        for limits in (ConstraintLimits(), ConstraintLimits(step_work=0))
    )
    refused = 0
    for seed in range(60):
        rng = random.Random(seed)
        matcher = ample.start()
        for _ in range(12):
            size = machine.table.num_rows, len(machine.stacks)
            try:
                tight.mask(matcher.position)
            except LimitExceededError:
                refused += 1
            else:
                assert (machine.table.num_rows, len(machine.stacks)) == size, (seed, matcher)
            tokens = sorted(_allowed(matcher) - {END})
            if not tokens:
                break
            matcher = matcher.advance(TokenId(rng.choice(tokens)))
    assert refused > 2


def test_a_walk_in_its_budget_ends_inside_it() -> None:
    for start, rng in _starts():
        budget = len(start.shortest_completion()) + rng.randrange(8)
        assert len(random_walk(start, rng, 0, budget).tokens) <= budget


def test_a_mask_within_a_budget_holds_what_fits() -> None:
    for start, rng in _starts():
        for matcher in random_walk(start, rng, rng.randrange(8)).matchers:
            budget = len(matcher.shortest_completion()) + rng.randrange(3)
            kept = set(tokens_of(matcher.mask_within(budget)).tolist())
            reached = tried(matcher, _TOKENS)
            fitting = {token for token in reached if reached[token].can_complete_within(budget - 1)}
            assert kept - {END} == fitting
            assert (END in kept) == matcher.is_accepting


def test_a_forced_run_is_the_only_way_to_go_on() -> None:
    for start, rng in _starts():
        for matcher in random_walk(start, rng, rng.randrange(8)).matchers:
            position = matcher
            for byte in _VOCABULARY.decode(matcher.forced_run(Forcing.CANONICAL)):
                assert not position.is_accepting
                assert set(tried(position, range(1, 257))) == {byte + 1}
                position = position.advance(_VOCABULARY.byte_ids[byte])


def test_what_a_walk_writes_is_in_the_language() -> None:
    for seed in range(_GRAMMARS):
        rng = random.Random(seed)
        rules = random_grammar(rng)
        texts = language(rules, 8)
        if not texts:
            continue
        limits = ConstraintLimits()
        machine = machine_of(rules)
        constraint = CompiledConstraint(machine, _BINDING, MaskStore(2**20), limits)
        start = constraint.start()
        walk = random_walk(start, rng, 0, len(start.shortest_completion()) + 3)
        text = _VOCABULARY.decode(walk.tokens).decode()
        assert len(text) > 8 or text in texts, (seed, text)
