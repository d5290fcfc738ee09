"""Random schemas mean the same to us and to an independent validator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema.validators import validator_for

from guided.errors import LimitExceededError
from guided.json_schema.reader import lower_json_schema
from guided.json_schema.reader.keywords import KEYWORDS, Draft
from guided.spec import JsonSchema
from tests.kit.evaluate import holds

_NAMES = st.sampled_from(["a", "b", "ab", "c"])
_PATTERNS = st.sampled_from(["^a", "b$", "c"])
_COUNTS = st.integers(0, 3)
_NUMBERS = st.sampled_from([-1, 0, 0.5, 1, 2, 3, 10])
_SCALARS = st.sampled_from([None, True, False, 0, 1, 1.5, 2, 10, "", "a", "ab", "abc"])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_NAMES | st.just("d"), inner, max_size=4)
    ),
    max_leaves=10,
)
_TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_REFERENCES = st.sampled_from(["#/$defs/p", "#/$defs/q"])


def _keywords(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    by_name = st.dictionaries(_NAMES, inner, max_size=3)
    some = st.lists(inner, min_size=1, max_size=3)
    names = st.lists(_NAMES, max_size=2, unique=True)
    return {
        "type": _TYPES | st.lists(_TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(_VALUES, min_size=1, max_size=3),
        "const": _VALUES,
        "allOf": some,
        "anyOf": some,
        "oneOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "multipleOf": st.sampled_from([1, 2, 0.5, 3]),
        "maximum": _NUMBERS,
        "minimum": _NUMBERS,
        "exclusiveMaximum": _NUMBERS,
        "exclusiveMinimum": _NUMBERS,
        "maxLength": _COUNTS,
        "minLength": _COUNTS,
        "pattern": _PATTERNS,
        "prefixItems": some,
        "items": inner,
        "contains": inner,
        "maxContains": _COUNTS,
        "minContains": _COUNTS,
        "maxItems": _COUNTS,
        "minItems": _COUNTS,
        "uniqueItems": st.booleans(),
        "unevaluatedItems": inner,
        "properties": by_name,
        "patternProperties": st.dictionaries(_PATTERNS, inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "maxProperties": _COUNTS,
        "minProperties": _COUNTS,
        "required": names,
        "dependentRequired": st.dictionaries(_NAMES, names, max_size=2),
        "dependentSchemas": by_name,
        "unevaluatedProperties": inner,
        "$ref": _REFERENCES,
    }


def _some(keywords: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Up to four of the keywords, each with a value of its own."""
    names = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4, unique=True)

    @st.composite
    def drawn(draw: st.DrawFn) -> dict[str, Any]:
        return {name: draw(keywords[name]) for name in draw(names)}

    return drawn()


def _objects(inner: st.SearchStrategy[Any], draft: Draft) -> st.SearchStrategy[Any]:
    known = {word.name for word in KEYWORDS if word.first <= draft <= word.last}
    keywords = {name: values for name, values in _keywords(inner).items() if name in known}
    if draft < Draft.DRAFT_2020_12:
        keywords["items"] |= st.lists(inner, min_size=1, max_size=3)
        keywords["additionalItems"] = inner
        # The validator has faults here: it takes the keywords of an "additionalProperties" for
        # names, and fails on "items" that are true or false.
        keywords.pop("unevaluatedProperties", None)
        keywords.pop("unevaluatedItems", None)
    if draft < Draft.DRAFT_6:
        keywords["exclusiveMaximum"] = keywords["exclusiveMinimum"] = st.booleans()
        keywords["required"] = st.lists(_NAMES, min_size=1, max_size=2, unique=True)
    if draft < Draft.DRAFT_2019_09:
        names = st.lists(_NAMES, min_size=1, max_size=2, unique=True)
        keywords["dependencies"] = st.dictionaries(_NAMES, inner | names, max_size=2)
    # The validator fails on "additionalItems" beside "items" that are true or false.
    return _some(keywords).filter(
        lambda schema: not (isinstance(schema.get("items"), bool) and "additionalItems" in schema)
    )


@cache
def _roots(draft: Draft) -> st.SearchStrategy[Any]:
    leaves: st.SearchStrategy[Any] = st.booleans() if draft > Draft.DRAFT_4 else st.just({})
    schemas = st.recursive(leaves, lambda inner: _objects(inner, draft), max_leaves=6)
    return _objects(schemas, draft)


@st.composite
def _documents(draw: st.DrawFn) -> dict[str, Any]:
    draft = draw(st.sampled_from(Draft))
    root = draw(_roots(draft))
    # Definitions refer to nothing, so that nothing applies itself without end.
    definitions = {"p": draw(_VALUES.map(lambda value: {"enum": [value]})), "q": {"minimum": 1}}
    return {"$schema": draft.uri + "#", **root, "$defs": definitions}


_PLAIN = st.booleans() | st.sampled_from(
    [{"const": 1}, {"type": "integer"}, {"required": ["a"]}, {"required": ["b"]}, {"minItems": 2}]
)
_IN_PLACE = [
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "then",
    "else",
    "not",
    "dependentSchemas",
    "required",
    "$ref",
    "properties",
    "prefixItems",
    "items",
    "patternProperties",
    "additionalProperties",
    "contains",
    "unevaluatedProperties",
    "unevaluatedItems",
]


def _evaluating(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keywords = _keywords(inner)
    return _some({name: keywords[name] for name in _IN_PLACE})


@cache
def _evaluating_roots() -> st.SearchStrategy[Any]:
    return _evaluating(st.recursive(_PLAIN, _evaluating, max_leaves=8))


@st.composite
def _unevaluated(draw: st.DrawFn) -> dict[str, Any]:
    root = draw(_evaluating_roots())
    keyword = draw(st.sampled_from(["unevaluatedProperties", "unevaluatedItems"]))
    branches = [{"properties": {"b": {"type": "integer"}}, "required": ["b"]}, {"contains": True}]
    definitions = {
        "p": {"properties": {"a": {"const": 1}}, "prefixItems": [True]},
        "q": {"anyOf": branches},
    }
    return {**root, keyword: draw(st.sampled_from([False, {"const": 1}])), "$defs": definitions}


@settings(max_examples=150, deadline=None)
@given(_documents(), st.lists(_VALUES, min_size=1, max_size=8))
def test_a_schema_means_what_a_validator_takes_it_to_mean(schema: Any, values: list[Any]) -> None:
    _compare(schema, values)


_FEW = st.sampled_from([1, 2, "a", None])
_CONTAINERS = st.lists(_FEW, max_size=4) | st.dictionaries(_NAMES | st.just("d"), _FEW, max_size=4)


@settings(max_examples=150, deadline=None)
@given(_unevaluated(), st.lists(_CONTAINERS, min_size=2, max_size=10))
def test_what_was_evaluated_is_what_a_validator_takes_for_it(
    schema: Any, values: list[Any]
) -> None:
    _compare(schema, values)


def _compare(schema: Any, values: list[Any]) -> None:
    try:
        grammar = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
    except LimitExceededError:
        return
    validator = validator_for(schema, jsonschema.Draft202012Validator)(schema)
    for value in values:
        exact = json.loads(json.dumps(value), parse_float=Decimal)
        assert holds(grammar.root, exact) == validator.is_valid(value), value
