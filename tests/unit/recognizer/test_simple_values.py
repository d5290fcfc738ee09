"""Which formulas one of the simplest values is known to fit."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import pytest

from guided.errors import GuidedError
from guided.frontends.json_schema import lower_json_schema
from guided.grammar.assertions import JsonType, Types
from guided.grammar.formula import Formulas
from guided.grammar.json_grammar import JsonGrammar
from guided.recognizer.simple_values import SimpleValues
from guided.spec import JsonSchema
from tests.kit.hard_schemas import hard_schema

_SIMPLE: tuple[Any, ...] = ("", 0, {}, [], True, None)


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (True, True),
        (False, False),
        ({"type": "string"}, True),
        ({"type": "string", "minLength": 1}, False),
        ({"type": "string", "maxLength": 3}, True),
        ({"type": ["string", "null"], "minLength": 1}, True),
        ({"type": "number", "minimum": -1}, True),
        ({"type": "number", "exclusiveMinimum": 0}, False),
        ({"enum": [0, 7]}, True),
        ({"enum": ["a"]}, False),
        ({"const": ""}, True),
        ({"type": "boolean"}, True),
        ({"type": "array", "items": False}, True),
        ({"type": "array", "minItems": 1}, False),
        ({"type": "array", "contains": {"type": "null"}}, False),
        ({"type": "object", "properties": {"a": {"enum": []}}}, True),
        ({"type": "object", "required": ["a"]}, False),
        ({"type": "object", "minProperties": 1}, False),
        ({"not": {"type": "string"}}, True),
        ({"type": "object", "not": {"required": ["a"]}}, True),
        ({"type": "string", "pattern": "^a*$"}, False),  # it takes a search to know
        ({"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]}, True),
    ],
)
def test_whether_a_simple_value_is_known_to_fit(schema: Any, fits: bool) -> None:
    grammar = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
    assert SimpleValues(grammar).one_fits([grammar.root]) == fits


def test_all_formulas_have_to_be_fitted_by_one_value() -> None:
    formulas = Formulas()
    string, null = (
        formulas.leaf(Types(frozenset((kind,)))) for kind in (JsonType.STRING, JsonType.NULL)
    )
    simple = SimpleValues(JsonGrammar(formulas, (), string))
    assert simple.one_fits([string])
    assert simple.one_fits([null])
    assert not simple.one_fits([string, null])


@pytest.mark.parametrize("block", range(4))
def test_what_is_known_to_be_fitted_is(block: int) -> None:
    known = 0
    for seed in range(100 * block, 100 * (block + 1)):
        schema = hard_schema(random.Random(seed))
        try:
            grammar = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
        except GuidedError:
            continue
        if SimpleValues(grammar).one_fits([grammar.root]):
            known += 1
            validator = jsonschema_rs.Draft202012Validator(schema)
            assert any(map(validator.is_valid, _SIMPLE)), schema
    assert known > 20
