"""All arrays of up to three small integers in which an item may have to repeat another."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from guided.errors import LimitExceededError, UnsatisfiableError
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from tests.kit.cases import compiled
from tests.kit.effort import times
from tests.kit.oracles import Oracle
from tests.kit.walks import BYTES
from tests.kit.writing import ANY_WAY

_NUMBERS = (0, 1, 2, 8)
_BYTES = b"[]," + b"".join(b"%d" % number for number in _NUMBERS)
_ARRAYS = [d for count in range(4) for d in itertools.product(_NUMBERS, repeat=count)]
_TEXTS = [json.dumps(numbers, separators=(",", ":")) for numbers in _ARRAYS]
_CASES = times(30)


def _item(rng: random.Random) -> Any:
    """A schema for an item; some allow every integer, though the formula does not show it."""
    return rng.choice(
        [
            True,
            {"type": "integer"},
            {"uniqueItems": True},
            {"maximum": 1},
            {"minimum": 2},
            {"enum": [1, 2]},
            {"enum": [0, 2, 8]},
            {"const": 8},
            {"not": {"const": 1}},
        ]
    )


def _array(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"maxItems": rng.randrange(2, 4)}
    if rng.random() < 0.7:
        schema["prefixItems"] = [_item(rng) for _ in range(rng.randrange(1, 4))]
    if rng.random() < 0.7:
        schema["items"] = _item(rng)
    if rng.random() < 0.3:
        schema["contains"] = _item(rng)
        schema["minContains"] = rng.randrange(3)
    return schema


def _distinct(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"uniqueItems": True}
    if rng.random() < 0.6:
        schema["items"] = _item(rng)
    if rng.random() < 0.3:
        schema["contains"] = _item(rng)
    return schema


def _schema(seed: int) -> dict[str, Any]:
    """An array that must not have distinct items, or must satisfy only one of two conditions."""
    rng = random.Random(seed)
    schema = {
        "type": "array",
        "allOf": [{"items": {"type": "integer", "minimum": 0, "maximum": 9}}],
    }
    schema |= _array(rng)
    if rng.random() < 0.5:
        return {**schema, "not": _distinct(rng)}
    return {**schema, "oneOf": [_distinct(rng), rng.choice([{}, _distinct(rng), _array(rng)])]}


def _written(start: Matcher) -> set[bytes]:
    """All texts that the masks allow; each position on the way has an end."""
    found: set[bytes] = set()
    todo = [(b"", start)]
    while todo:
        text, matcher = todo.pop()
        allowed = set(tokens_of(matcher.mask()).tolist())
        assert matcher.shortest_completion() or matcher.is_accepting, text
        if matcher.is_accepting:
            found.add(text)
        for byte in _BYTES:
            token = BYTES.byte_ids[byte]
            if token in allowed and len(text) < 7:
                todo.append((text + bytes((byte,)), matcher.advance(token)))
    return found


@pytest.mark.parametrize("seed", range(_CASES))
def test_every_array_that_is_valid_is_written_and_no_other(seed: int) -> None:
    schema = _schema(seed)
    oracle = Oracle(json.dumps(schema))
    valid = {text.encode() for text in _TEXTS if oracle.is_valid(text)}
    try:
        constraint = compiled(schema, ANY_WAY)
    except UnsatisfiableError:
        assert not valid
        return
    except LimitExceededError:
        return
    written = _written(constraint.start()).intersection(text.encode() for text in _TEXTS)
    assert written <= valid
    assert constraint.incomplete or valid <= written
