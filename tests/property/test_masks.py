"""Masks of random schemas over a tiny vocabulary, held against trying every token."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from guided.constraint import ConstraintCompiler
from guided.errors import TokenRejectedError, UnsatisfiableError, UnsupportedFeatureError
from guided.spec import Forcing, JsonSchema, TokenId
from guided.tokens.mask import tokens_of
from tests.kit.schemas import schemas
from tests.kit.tiny_vocabulary import tiny_vocabulary

_VOCABULARY = tiny_vocabulary()
_COMPILER = ConstraintCompiler(_VOCABULARY)
_END = TokenId(0)
_settings = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def _start(schema: Any) -> Any:
    try:
        return _COMPILER.start(JsonSchema(json.dumps(schema)))
    except (UnsatisfiableError, UnsupportedFeatureError):
        assume(False)


def _tried(matcher: Any) -> dict[int, Any]:
    """Every token that can be taken, with the position behind it."""
    taken = {}
    for token in range(1, len(_VOCABULARY)):
        try:
            taken[token] = matcher.advance(TokenId(token))
        except TokenRejectedError:
            continue
    return taken


@_settings
@given(schemas(), st.integers(0, 2**32), st.integers(1, 25))
def test_the_mask_of_every_state_on_a_walk_equals_trying_every_token(
    schema: Any, seed: int, steps: int
) -> None:
    matcher = _start(schema)
    rng = random.Random(seed)
    for _ in range(steps):
        tried = _tried(matcher)
        expected = set(tried) | ({_END} if matcher.is_accepting else set())
        assert set(tokens_of(matcher.mask()).tolist()) == expected
        if not tried:
            break
        # Pieces of several bytes cross more joints than single bytes do.
        pieces = [token for token in tried if token > 256]
        token = rng.choice(pieces if pieces and rng.random() < 0.6 else list(tried))
        matcher = tried[token]


def _reachable(matcher: Any, limit: int) -> dict[Any, Any]:
    """All positions by state that tokens lead to, breadth first, at most ``limit``."""
    found = {matcher.state: matcher}
    queue = [matcher]
    for current in queue:
        for reached in _tried(current).values():
            if reached.state not in found and len(found) < limit:
                found[reached.state] = reached
                queue.append(reached)
    return found


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
]


def test_the_mask_of_every_reachable_state_equals_trying_every_token() -> None:
    for schema in _CLOSED_SCHEMAS:
        start = _COMPILER.start(JsonSchema(json.dumps(schema)))
        states = _reachable(start, limit=150)
        assert len(states) >= 10
        for matcher in states.values():
            expected = set(_tried(matcher)) | ({_END} if matcher.is_accepting else set())
            assert set(tokens_of(matcher.mask()).tolist()) == expected, matcher.state


@_settings
@given(schemas(), st.integers(0, 2**32), st.integers(0, 12))
def test_an_answer_that_stays_in_its_budget_ends_inside_it(
    schema: Any, seed: int, spare: int
) -> None:
    """From the shortest budget on, masks within it lead to a complete document in time."""
    matcher = _start(schema)
    rng = random.Random(seed)
    budget = len(matcher.shortest_end()) + spare
    while not matcher.is_complete and budget:
        assert matcher.fits(budget)
        mask = tokens_of(matcher.mask_within(budget)).tolist()
        allowed = set(tokens_of(matcher.mask()).tolist())
        assert mask
        assert set(mask) <= allowed
        token = rng.choice(mask)
        if token == _END:
            break
        matcher, budget = matcher.advance(TokenId(token)), budget - 1
    assert matcher.is_accepting


@_settings
@given(schemas(), st.integers(0, 2**32), st.integers(1, 15))
def test_a_mask_within_a_budget_leaves_out_only_what_does_not_fit(
    schema: Any, seed: int, steps: int
) -> None:
    matcher = _start(schema)
    rng = random.Random(seed)
    for _ in range(steps):
        tried = _tried(matcher)
        budget = len(matcher.shortest_end()) + rng.randrange(4)
        kept = set(tokens_of(matcher.mask_within(budget)).tolist()) - {_END}
        fitting = {token for token, reached in tried.items() if reached.fits(budget - 1)}
        assert kept <= fitting | set(matcher.shortest_end()[:1])
        if not _writes_free_key(matcher):
            assert kept == fitting
        if not tried:
            break
        matcher = tried[rng.choice(list(tried))]


def _writes_free_key(matcher: Any) -> bool:
    """The bound is a little too careful where the end depends on the keys written before."""
    machine = matcher.constraint.machine
    return any(frame is not None and getattr(frame, "keys", 0) for frame in machine.contexts.frames)


@_settings
@given(schemas(), st.integers(0, 2**32), st.integers(1, 15))
def test_a_forced_run_is_the_only_way_to_go_on(schema: Any, seed: int, steps: int) -> None:
    """Strict: each mask on the way holds one token. Canonical: the bytes have no alternative."""
    matcher = _start(schema)
    rng = random.Random(seed)
    for _ in range(steps):
        position = matcher
        for token in matcher.forced_run(Forcing.STRICT):
            assert tokens_of(position.mask()).tolist() == [token]
            position = position.advance(token)
        position = matcher
        for byte in _VOCABULARY.decode(matcher.forced_run(Forcing.CANONICAL)):
            single = _VOCABULARY.byte_ids[byte]
            live = {t for t in _tried(position) if t <= 256}
            assert live == {single}
            assert not position.is_accepting
            position = position.advance(single)
        tried = _tried(matcher)
        if not tried:
            break
        matcher = tried[rng.choice(list(tried))]
