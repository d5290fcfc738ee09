"""Keywords that their draft does not define are notes, or errors if that is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

import guided
from guided.errors import InvalidConstraintError, RequestError
from guided.spec import JsonOptions

REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"type": "string", "maxlength": 4},
        "at /maxlength: no draft defines 'maxlength'; did you mean 'maxLength'?",
    ),
    (
        {"properties": {"a": {"items": {"requred": []}}}},
        "at /properties/a/items/requred: no draft defines 'requred'; did you mean 'required'?",
    ),
    (
        {"nullable": True},
        "at /nullable: no draft defines 'nullable'; add \"null\" to 'type'",
    ),
    (
        {"format": "zzz"},
        "at /format: there is no rule for the format 'zzz'; leave it out, or write a 'pattern'",
    ),
    (
        {"$schema": "http://json-schema.org/draft-04/schema#", "constt": 1},
        "at /constt: no draft defines 'constt'; leave it out, or let it begin with 'x-'",
    ),
    ({"zz": True}, "at /zz: no draft defines 'zz'; leave it out, or let it begin with 'x-'"),
    (
        {"properties": {"a": {"type": "string", "format": "datetime"}}},
        "at /properties/a/format: there is no rule for the format 'datetime'; "
        "did you mean 'date-time'?",
    ),
    # Not reachable from the root, but a schema.
    (
        {"$defs": {"a": {"exemple": 1}}},
        "at /$defs/a/exemple: no draft defines 'exemple'; did you mean 'examples'?",
    ),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", "dependentRequired": {}},
        "at /dependentRequired: 'dependentRequired' means nothing in draft 7; write 'dependencies'",
    ),
    (
        {"$schema": "http://json-schema.org/draft-04/schema#", "const": 1},
        "at /const: 'const' means nothing in draft 4; leave it out, or name a draft that has it "
        "with '$schema'",
    ),
]

TAKEN: list[dict[str, Any]] = [
    # Up to draft 7 ``$ref`` hides what is beside it.
    {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/a",
        "definitions": {"a": {}},
        "format": ["date"],
    },
    {"type": "string", "maxLength": 4, "title": "A", "examples": ["a"], "$comment": "b"},
    {"x-order": 1, "x-internal": {"maxlength": 1}},
    # As Pydantic writes a union that a member tells apart.
    {"oneOf": [{"type": "null"}], "discriminator": {"propertyName": "kind"}, "example": None},
    # No keywords: names of members, and values.
    {"properties": {"maxlength": {}}, "default": {"requred": 1}, "enum": [{"nullable": 1}]},
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}},
]


@pytest.mark.parametrize(("schema", "message"), REFUSED, ids=repr)
def test_unknown_keywords_are_refused_where_it_is_asked_for(
    schema: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidConstraintError) as caught:
        guided.check(schema, json_options=JsonOptions(unknown_keywords="refuse"))
    assert str(caught.value) == message
    assert guided.check(schema).shortest_answer


def test_a_keyword_outside_of_the_vocabularies_is_told_so() -> None:
    meta = {
        "$id": "https://a.example/meta",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/core": True},
    }
    with pytest.raises(InvalidConstraintError, match="in none of the vocabularies of the schema's"):
        guided.check(
            {"$schema": "https://a.example/meta", "minLength": 1},
            json_options=JsonOptions(unknown_keywords="refuse"),
            documents={"https://a.example/meta": meta},
        )


@pytest.mark.parametrize("beside", [{}, {"unevaluatedProperties": False}, {"format": "date"}])
def test_a_misspelt_keyword_of_another_document_is_refused(beside: dict[str, Any]) -> None:
    with pytest.raises(InvalidConstraintError, match="maxlength"):
        guided.check(
            {**beside, "$ref": "https://a.example/other"},
            json_options=JsonOptions(unknown_keywords="refuse"),
            documents={"https://a.example/other": {"maxlength": 3}},
        )


def test_options_are_not_taken_beside_a_constraint() -> None:
    with pytest.raises(RequestError, match="are for a schema or a type, not for a constraint"):
        guided.check(guided.Regex("a"), json_options=JsonOptions(unknown_keywords="refuse"))


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "uri", ["json-schema.org/draft-07/schema#", "json-schema.org/draft/2020-12/schema"]
)
def test_a_draft_is_known_by_either_scheme(scheme: str, uri: str) -> None:
    schema = {"$schema": f"{scheme}://{uri}", "type": "string", "minLength": 3}
    assert guided.check(schema).shortest_answer == '"aaa"'


def test_formats_that_are_notes_may_be_any() -> None:
    options = JsonOptions(unknown_keywords="refuse", format="annotate")
    assert guided.check({"format": "datetime"}, json_options=options).shortest_answer


@pytest.mark.parametrize("schema", TAKEN, ids=json.dumps)
def test_known_keywords_and_those_for_other_programs_are_taken(schema: dict[str, Any]) -> None:
    strict = guided.check(schema, json_options=JsonOptions(unknown_keywords="refuse"))
    assert strict == guided.check(schema)
