"""Masks of random schemas over a tiny vocabulary, compared with trying every token."""

from __future__ import annotations

import json
import random
from typing import Any

from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.spec import Forcing
from tests.kit.cases import cases, compiled, trying
from tests.kit.oracles import Oracle
from tests.kit.walks import END, PIECES, random_walk, tried
from tests.kit.writing import ANY_WAY, SCHEMA_ORDER

_WRITINGS = [ANY_WAY, SCHEMA_ORDER]
_TOKENS = range(1, len(PIECES))
_GENEROUS = 60
"""Spare tokens for names that were not written before."""


def _start(schema: Any, rng: random.Random) -> Matcher:
    return compiled(schema, rng.choice(_WRITINGS), PIECES).start()


def _allowed(matcher: Matcher) -> set[int]:
    return set(tokens_of(matcher.mask()).tolist())


def test_a_mask_equals_trying_every_token() -> None:
    """Exact, at every position of a walk."""
    for schema, rng in cases(30):
        with trying(schema, rng):
            for matcher in random_walk(_start(schema, rng), rng, rng.randrange(15)).matchers:
                expected: set[int] = set(tried(matcher, _TOKENS))
                assert _allowed(matcher) == (expected | {END} if matcher.is_accepting else expected)


_CLOSED_SCHEMAS = [
    {
        "type": "object",
        "properties": {
            "name": {"enum": ["red", "abc"]},
            "a": {"type": "integer", "minimum": -1, "maximum": 10},
            "ab": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    {"type": "array", "items": {"type": "string", "maxLength": 2, "pattern": "^[a\\u00e9]*$"}},
    {"type": "object", "additionalProperties": {"const": 0}, "maxProperties": 2},
    {"type": "array", "items": {"enum": ["a", "ab", 10, [], [10]]}, "uniqueItems": True},
    {"oneOf": [{"required": ["a"]}, {"required": ["ab"]}], "additionalProperties": {"const": 1}},
]


def _reachable(start: Matcher, limit: int) -> dict[Any, Matcher]:
    """The positions that tokens lead to, one of each state, breadth first, at most ``limit``."""
    found: dict[Any, Matcher] = {_state(start): start}
    queue = [start]
    for matcher in queue:
        for reached in tried(matcher, _TOKENS).values():
            if len(found) < limit and _state(reached) not in found:
                found[_state(reached)] = reached
                queue.append(reached)
    return found


def _state(matcher: Any) -> Any:
    return matcher.state


def test_the_mask_of_every_reachable_state_equals_trying_every_token() -> None:
    for schema in _CLOSED_SCHEMAS:
        states = _reachable(compiled(schema, SCHEMA_ORDER, PIECES).start(), limit=150)
        assert len(states) >= 10
        for state, matcher in states.items():
            expected: set[int] = set(tried(matcher, _TOKENS))
            if matcher.is_accepting:
                expected.add(END)
            assert _allowed(matcher) == expected, state


def test_a_walk_in_its_budget_ends_inside_it() -> None:
    """From the smallest budget on, and the written text is valid."""
    for schema, rng in cases(75):
        with trying(schema, rng):
            start = _start(schema, rng)
            budget = len(start.shortest_completion()) + rng.randrange(12)
            walk = random_walk(start, rng, 0, budget)
            assert len(walk.tokens) <= budget
            text = PIECES.decode(walk.tokens).decode()
            assert Oracle(json.dumps(schema)).is_valid(text) is not False, text


def test_the_way_out_stays_open_token_by_token() -> None:
    """After each token of the shortest end there is an end no longer than the rest of it."""
    for schema, rng in cases(75):
        with trying(schema, rng):
            for matcher in random_walk(_start(schema, rng), rng, rng.randrange(15)).matchers:
                way_out = matcher.shortest_completion()
                for taken, token in enumerate(way_out, start=1):
                    matcher = matcher.advance(token)
                    assert len(matcher.shortest_completion()) <= len(way_out) - taken


def test_a_mask_within_a_budget_holds_only_what_fits() -> None:
    """With a tight budget it may hold less, because the end depends on the names written before.

    It always holds a way out, and with some spare tokens it holds everything that fits.
    """
    for schema, rng in cases(30):
        with trying(schema, rng):
            for matcher in random_walk(_start(schema, rng), rng, rng.randrange(15)).matchers:
                spare = rng.choice([0, 1, 2, _GENEROUS])
                budget = len(matcher.shortest_completion()) + spare
                kept = set(tokens_of(matcher.mask_within(budget)).tolist())
                reached = tried(matcher, _TOKENS)
                fitting = {
                    token for token in reached if reached[token].can_complete_within(budget - 1)
                }
                assert kept
                assert kept - {END} <= fitting
                assert (END in kept) == matcher.is_accepting
                if spare == _GENEROUS:
                    assert kept - {END} == fitting


def test_a_forced_run_is_the_only_way_to_go_on() -> None:
    """Strict: each mask on the way holds one token. Canonical: the bytes have no alternative."""
    for schema, rng in cases(30):
        with trying(schema, rng):
            for matcher in random_walk(_start(schema, rng), rng, rng.randrange(15)).matchers:
                position = matcher
                for token in matcher.forced_run(Forcing.STRICT):
                    assert _allowed(position) == {token}
                    position = position.advance(token)
                position = matcher
                for byte in PIECES.decode(matcher.forced_run(Forcing.CANONICAL)):
                    assert not position.is_accepting
                    assert set(tried(position, range(1, 257))) == {byte + 1}
                    position = position.advance(PIECES.byte_ids[byte])
