"""Structural tags are read as the constraints that they stand for, or refused with the place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.errors import (
    ConstraintError,
    InvalidConstraintError,
    LimitExceededError,
    UnsupportedFeatureError,
)
from guided.spec import Ebnf, JsonSchema, Regex, Structure
from guided.spec.composition import AnyOf, Repeat, Sequence, Text
from guided.spec.structural_tags import read_structural_tag
from guided.spec.tagged import Calls, FreeText, Tag, Tagged, Until

SCHEMA = {"type": "integer"}
INTEGER = JsonSchema('{"type": "integer"}')
JSON = {"type": "json_schema", "json_schema": SCHEMA}
A = {"type": "const_string", "value": "a"}
TAG = {"type": "tag", "begin": "<f>", "content": JSON, "end": "</f>"}
REST = Sequence([INTEGER, AnyOf([Text("</f>")])])
ANY = {"type": "any_text"}


def schema(given: object) -> Structure:
    if given == "wrong":
        raise InvalidConstraintError("it is wrong", pointer="/type")
    return JsonSchema(json.dumps(given))


def read(tag: object) -> Structure:
    return read_structural_tag(json.dumps(tag), schema)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (A, Text("a")),
        (JSON, INTEGER),
        (JSON | {"style": "json", "any_order": False, "max_whitespace_cnt": None}, INTEGER),
        ({"type": "regex", "pattern": "a+"}, Regex("a+")),
        ({"type": "grammar", "grammar": 'root ::= "a"'}, Ebnf('root ::= "a"')),
        (ANY, FreeText()),
        (ANY | {"excludes": ["x"]}, FreeText("x")),
        ({"type": "sequence", "elements": [A, JSON]}, Sequence([Text("a"), INTEGER])),
        ({"type": "or", "elements": [A, JSON]}, AnyOf([Text("a"), INTEGER])),
        ({"type": "optional", "content": A}, Repeat("a", 0, 1)),
        ({"type": "star", "content": A}, Repeat("a")),
        ({"type": "plus", "content": A}, Repeat("a", 1)),
        ({"type": "repeat", "min": 2, "max": 3, "content": A}, Repeat("a", 2, 3)),
        ({"type": "repeat", "min": 2, "max": -1, "content": A}, Repeat("a", 2)),
        (TAG, Sequence(["<f>", REST])),
        (TAG | {"content": ANY}, Sequence(["<f>", Until("</f>")])),
        (TAG | {"content": ANY, "end": ["x", "y"]}, Sequence(["<f>", Until(["x", "y"])])),
        (
            TAG | {"content": ANY | {"excludes": ["z"]}},
            Sequence(["<f>", Sequence([FreeText("z"), AnyOf([Text("</f>")])])]),
        ),
    ],
)
def test_a_format_is_a_constraint(given: dict[str, Any], expected: Structure) -> None:
    assert read({"type": "structural_tag", "format": given}) == expected


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({}, Tagged([Tag("<f>", REST)], "<")),
        ({"at_least_one": True}, Tagged([Tag("<f>", REST)], "<", Calls.REQUIRED)),
        (
            {"at_least_one": True, "stop_after_first": True},
            Sequence([FreeText("<"), AnyOf([Sequence(["<f>", REST])])]),
        ),
        (
            {"stop_after_first": True},
            AnyOf([FreeText("<"), Sequence([FreeText("<"), AnyOf([Sequence(["<f>", REST])])])]),
        ),
    ],
)
def test_triggered_tags_stand_in_free_text(choices: dict[str, bool], expected: Structure) -> None:
    given = {"type": "triggered_tags", "triggers": ["<"], "tags": [TAG]} | choices
    assert read({"format": given}) == expected


def test_tags_with_a_separator_are_a_list() -> None:
    tag = AnyOf([Sequence(["<f>", REST])])
    many = Sequence([tag, Repeat(Sequence([",", tag]))])
    given = {"type": "tags_with_separator", "separator": ",", "tags": [TAG]}
    assert read({"format": given}) == Repeat(many, 0, 1)
    assert read({"format": given | {"at_least_one": True}}) == many
    once = given | {"at_least_one": True, "stop_after_first": True}
    assert read({"format": once}) == tag


def test_the_older_form_lists_tags() -> None:
    structures = [{"begin": "<f>", "schema": SCHEMA, "end": "</f>"}]
    given = {"structures": structures, "triggers": ["<f"]}
    assert read(given) == Tagged([Tag("<f>", INTEGER, "</f>")], "<f")
    assert read(given | {"type": "structural_tag"}) == read(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "neither a format nor structures"),
        ({"format": []}, "at /format: this is no object"),
        ({"format": {}}, "at /format: there is no type"),
        ({"format": {"type": "const_string"}}, "the format 'const_string' has no value"),
        ({"format": A | {"value": 3}}, "at /format/value: value is no text"),
        (
            {"format": {"type": "sequence", "elements": [A, A | {"value": None}]}},
            "at /format/elements/1/value: value is no text",
        ),
        (
            {"format": {"type": "repeat", "min": True, "max": 2, "content": A}},
            "at /format/min: min is no integer",
        ),
        (
            {"format": {"type": "triggered_tags", "triggers": ["<"], "tags": [A]}},
            "at /format/tags/0: this is no tag",
        ),
        (
            {"format": {"type": "json_schema", "json_schema": "wrong"}},
            "in the schema at /format/json_schema: at /type: it is wrong",
        ),
        ({"structures": [{"begin": "<f>", "end": ""}], "triggers": []}, "at /structures/0: there"),
        ({"structures": [], "triggers": []}, "there are no tags"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConstraintError) as caught:
        read(given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"type": "token", "token": 3}, "at /format: the format 'token' cannot be enforced; known"),
        (JSON | {"style": "qwen_xml"}, "at /format/style: style of the format 'json_schema'"),
        (ANY | {"max_tokens": 3}, "at /format/max_tokens: max_tokens of the format 'any_text'"),
        (TAG | {"content": ANY | {"max_chars": 3}}, "at /format/content/max_chars: max_chars"),
    ],
)
def test_what_cannot_be_enforced_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        read({"format": given})
    assert message in str(caught.value)
    one = {"begin": "<f>", "schema": SCHEMA, "end": "", "begin_token": 3}
    with pytest.raises(UnsupportedFeatureError, match="begin_token of the tag"):
        read({"structures": [one], "triggers": ["<f"]})


def test_a_text_of_very_many_values_is_refused_before_it_is_parsed() -> None:
    text = f'{{"format": {{"type": "const_string", "value": "a", "x": [{"0," * 200_000}0]}}}}'
    with pytest.raises(LimitExceededError, match="structural tag have more than 200000 values"):
        read_structural_tag(text, schema)


def test_what_nests_without_end_is_refused() -> None:
    given: dict[str, Any] = A
    for _ in range(200):
        given = {"type": "star", "content": given}
    with pytest.raises(ConstraintError, match="nest too deeply"):
        read({"format": given})
    with pytest.raises(InvalidConstraintError, match="not JSON"):
        read_structural_tag("[" * 100_000, schema)
