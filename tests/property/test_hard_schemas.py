"""Random schemas in which keywords meet, compared with independent validators."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from guided.errors import LimitExceededError, UnsatisfiableError
from guided.masks.matcher import Matcher
from guided.spec import JsonOptions
from tests.kit.cases import cases, compiled, trying
from tests.kit.hard_schemas import hard_document, mutated
from tests.kit.oracles import Oracle
from tests.kit.walks import BYTES, PIECES, accepts, random_walk
from tests.kit.writing import ANY_WAY, SCHEMA_ORDER, in_every_order

_EXPONENT = re.compile("[0-9]e")
"""In a document: a number that Python does not write canonically."""

_WRITINGS = [ANY_WAY, SCHEMA_ORDER]
_VOCABULARIES = [BYTES, PIECES]


def _text(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def test_every_walk_ends_and_what_it_wrote_is_valid() -> None:
    """Sound and alive: the masks allow no dead end and no invalid document."""
    for schema, rng in cases(150):
        with trying(schema, rng):
            vocabulary = rng.choice(_VOCABULARIES)
            start = compiled(schema, rng.choice(_WRITINGS), vocabulary).start()
            walk = random_walk(start, rng, rng.randrange(40))
            text = vocabulary.decode(walk.tokens)
            assert Oracle(json.dumps(schema)).is_valid(text.decode()) is not False, text
            assert accepts(compiled(schema, ANY_WAY).start(), text), text


def test_every_position_has_a_way_out() -> None:
    """The shortest end is allowed token by token, is an end, and fits the budget that it needs."""
    for schema, rng in cases(150):
        with trying(schema, rng):
            start = compiled(schema, rng.choice(_WRITINGS), rng.choice(_VOCABULARIES)).start()
            for matcher in random_walk(start, rng, rng.randrange(25)).matchers:
                way_out = matcher.shortest_completion()
                assert matcher.can_complete_within(len(way_out))
                for token in way_out:
                    matcher = matcher.advance(token)
                assert matcher.is_accepting
                assert not matcher.shortest_completion()


def test_a_document_is_accepted_exactly_when_it_is_valid() -> None:
    """Sound and complete if all ways of writing are allowed, unless fuel ran out."""
    for schema, rng in cases(100):
        with trying(schema, rng):
            constraint = compiled(schema, ANY_WAY)
            oracle = Oracle(json.dumps(schema))
            for document in _documents(rng, constraint.start()):
                text = _text(document)
                accepted, valid = accepts(constraint.start(), text), oracle.is_valid(text.decode())
                if valid is not None and accepted != valid:
                    assert valid, f"{text!r} is accepted, but not valid"
                    assert constraint.incomplete, f"{text!r} is valid, but not accepted"


def _documents(rng: random.Random, start: Matcher) -> Iterator[Any]:
    """Documents of the alphabet, and some written along the masks and then changed."""
    for _ in range(8):
        yield hard_document(rng)
    for _ in range(4):
        text = BYTES.decode(random_walk(start, rng, rng.randrange(20)).tokens)
        written = json.loads(text)
        if b"Infinity" not in _text(written):
            yield from (written, mutated(rng, written), mutated(rng, mutated(rng, written)))


def test_a_valid_document_can_be_written_in_the_order_of_the_schema() -> None:
    """Complete up to the order of members: one order of them is the schema's."""
    for schema, rng in cases(60):
        with trying(schema, rng):
            constraint = compiled(schema, SCHEMA_ORDER)
            oracle = Oracle(json.dumps(schema))
            for document in _documents(rng, constraint.start()):
                orders = list(itertools.islice(in_every_order(document), 200))
                plain = not _EXPONENT.search(json.dumps(document))
                if plain and len(orders) < 200 and oracle.is_valid(json.dumps(document)):
                    found = any(accepts(constraint.start(), _text(order)) for order in orders)
                    assert found or constraint.incomplete, document


def test_a_schema_without_documents_has_none_that_can_be_found() -> None:
    """A schema reported as unsatisfiable is so."""
    for schema, rng in cases(300):
        try:
            compiled(schema, ANY_WAY)
        except UnsatisfiableError:
            oracle = Oracle(json.dumps(schema))
            for _ in range(150):
                text = json.dumps(hard_document(rng))
                assert not oracle.is_valid(text), f"{schema} has {text}"
        except LimitExceededError:
            continue


_EMPTY: list[Any] = [
    False,
    {"type": "string", "minLength": 3, "maxLength": 2},
    {"type": "string", "pattern": "^a", "not": {"pattern": "a"}},
    {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
    {"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 6},
    {"type": "number", "minimum": 0, "exclusiveMaximum": 0},
    {"allOf": [{"type": "object"}, {"type": "array"}]},
    {"enum": ["a", 1], "type": "boolean"},
    {"type": "object", "properties": {"a": False}, "required": ["a"]},
    {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "minProperties": 3},
    {"type": "object", "minProperties": 2, "maxProperties": 1},
    {"type": "array", "items": False, "minItems": 1},
    {"type": "array", "items": {"type": "null"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "contains": {"const": 1}, "items": {"type": "string"}},
    {"const": 1, "not": {"type": "number"}},
    {"oneOf": [True, {}]},
    {"items": {"$ref": "#"}, "minItems": 1, "type": "array"},
]


@pytest.mark.parametrize("schema", _EMPTY, ids=json.dumps)
def test_what_has_no_document_is_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableError):
        compiled(schema, ANY_WAY)


@pytest.mark.parametrize("writing", _WRITINGS)
def test_few_schemas_are_left_out(writing: JsonOptions) -> None:
    """The tests above try most schemas: few exceed a limit, and in few fuel runs out."""
    count = refused = incomplete = 0
    for schema, _ in cases(100):
        count += 1
        try:
            incomplete += bool(compiled(schema, writing).incomplete)
        except UnsatisfiableError:
            continue
        except LimitExceededError:
            refused += 1
    assert refused <= count * 0.02
    assert incomplete <= count * 0.02
