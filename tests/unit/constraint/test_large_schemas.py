"""Large schemas like those of users: their documents can be written to the end."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest

from guided.constraint.compiler import ConstraintCompiler
from guided.spec import JsonOptions, JsonSchema, KeyOrder, TokenId
from tests.kit.large_schemas import LARGE, large_schema
from tests.kit.walks import BYTES, allows, random_walk

_MASK_EVERY = 16
"""Masks of every byte take most of a minute."""


@pytest.mark.parametrize("name", LARGE)
def test_documents_of_a_large_schema_are_written_to_their_end(name: str) -> None:
    schema, documents = large_schema(name)
    constraint = JsonSchema(json.dumps(schema), JsonOptions(key_order=KeyOrder.ANY))
    compiled = ConstraintCompiler(BYTES).compile(constraint)
    for document in documents:
        jsonschema.Draft202012Validator(schema).validate(document)
        matcher = compiled.start()
        for place, byte in enumerate(json.dumps(document, separators=(",", ":")).encode()):
            token = TokenId(byte + 1)
            assert place % _MASK_EVERY or allows(matcher.mask(), token)
            matcher = matcher.advance(token)
        assert matcher.is_accepting
    # For 150 formulas asked of one value only likely verdicts are tried, which is counted.
    assert compiled.incomplete <= (name == "resources")


@pytest.mark.parametrize("name", LARGE)
def test_walks_through_a_large_schema_hit_no_limit(name: str) -> None:
    """With members in the order of the schema, so that all types of a list have one order."""
    schema, _ = large_schema(name)
    compiled = ConstraintCompiler(BYTES).compile(JsonSchema(json.dumps(schema)))
    for seed in range(2):
        walk = random_walk(compiled.start(), random.Random(seed), 150)
        jsonschema.Draft202012Validator(schema).validate(
            json.loads(BYTES.decode(walk.tokens).decode())
        )
