"""The report on each keyword of a schema, and the documentation of all keywords."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guided.json_schema.reader import lower_json_schema
from guided.json_schema.reader.verdicts import replace_table
from guided.spec import Enforcement, FormatMode, JsonOptions, JsonSchema, KeyOrder, Verdict


def _verdicts(schema: Any, options: JsonOptions | None = None) -> dict[str, Verdict]:
    lowered = lower_json_schema(JsonSchema(json.dumps(schema), options or JsonOptions()))
    return {verdict.pointer: verdict for verdict in lowered.verdicts}


def test_every_keyword_gets_a_verdict_used_or_not() -> None:
    schema = {
        "title": "Person",
        "type": "object",
        "properties": {"born": {"type": "string", "format": "date"}},
        "not": {"required": ["x"]},
        "$defs": {"unused": {"enum": [1]}},
        "x-note": {"type": "string"},
    }
    verdicts = _verdicts(schema)
    assert {
        pointer: verdict.enforcement
        for pointer, verdict in verdicts.items()
        if pointer != "/properties/born/format"
    } == {
        "/title": Enforcement.ANNOTATION,
        "/type": Enforcement.ENFORCED,
        "/properties": Enforcement.ENFORCED,
        "/not": Enforcement.ENFORCED,
        "/$defs": Enforcement.ANNOTATION,
        "/x-note": Enforcement.ANNOTATION,
        "/properties/born/type": Enforcement.ENFORCED,
        "/not/required": Enforcement.ENFORCED,
        "/$defs/unused/enum": Enforcement.ENFORCED,
    }
    assert verdicts["/x-note"].note == "no draft defines it"


_LISTED = "only the 200 multiples nearest to zero within the bounds; beyond them no number"
_NOTES: list[tuple[Any, JsonOptions, str, Enforcement, str]] = [
    (
        {"maxlength": 3},
        JsonOptions(),
        "/maxlength",
        Enforcement.ANNOTATION,
        "no draft defines it; close to 'maxLength'",
    ),
    (
        {"$schema": "http://json-schema.org/draft-06/schema", "if": {}},
        JsonOptions(),
        "/if",
        Enforcement.ANNOTATION,
        "means nothing in draft 6",
    ),
    ({"then": {}}, JsonOptions(), "/then", Enforcement.ANNOTATION, "means nothing without 'if'"),
    ({"then": True}, JsonOptions(), "/then", Enforcement.ANNOTATION, "means nothing without 'if'"),
    *(
        ({**draft, keyword: switch}, JsonOptions(), f"/{keyword}", Enforcement.ANNOTATION, note)
        for draft in ({}, {"$schema": "http://json-schema.org/draft-04/schema"})
        for switch in (True, False)
        for keyword, note in (
            ("exclusiveMinimum", "means nothing without 'minimum'"),
            ("exclusiveMaximum", "means nothing without 'maximum'"),
        )
    ),
    (
        {"minimum": 1, "exclusiveMinimum": True},
        JsonOptions(),
        "/exclusiveMinimum",
        Enforcement.ENFORCED,
        "",
    ),
    ({"exclusiveMinimum": 1}, JsonOptions(), "/exclusiveMinimum", Enforcement.ENFORCED, ""),
    (
        {"type": "integer", "exclusiveMinimum": True, "maximum": 5},
        JsonOptions(),
        "/type",
        Enforcement.NARROWED,
        "at most 20 digits on either side of the point",
    ),
    (
        {"type": "integer", "exclusiveMinimum": 1, "maximum": 5, "exclusiveMaximum": False},
        JsonOptions(),
        "/type",
        Enforcement.ENFORCED,
        "",
    ),
    (
        {"items": {}, "additionalItems": {}},
        JsonOptions(),
        "/additionalItems",
        Enforcement.ANNOTATION,
        "means nothing without a list of 'items'",
    ),
    (
        {
            "$schema": "http://json-schema.org/draft-07/schema",
            "$ref": "#/definitions/a",
            "minimum": 1,
            "definitions": {"a": {}},
        },
        JsonOptions(),
        "/minimum",
        Enforcement.ANNOTATION,
        "hidden by $ref up to draft 7",
    ),
    (
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema"}}},
        JsonOptions(),
        "/properties/a/$schema",
        Enforcement.ANNOTATION,
        "only a schema with a URI chooses a draft",
    ),
    (
        {"format": "mine"},
        JsonOptions(),
        "/format",
        Enforcement.ANNOTATION,
        "no rule for the format 'mine'",
    ),
    (
        {"format": "date"},
        JsonOptions(format=FormatMode.ANNOTATE),
        "/format",
        Enforcement.ANNOTATION,
        "the options make formats notes",
    ),
    (
        {"type": ["string", "null"]},
        JsonOptions(max_string_length=50),
        "/type",
        Enforcement.NARROWED,
        "at most 50 characters",
    ),
    ({"type": "string"}, JsonOptions(max_string_length=None), "/type", Enforcement.ENFORCED, ""),
    ({"type": "string", "maxLength": 9}, JsonOptions(), "/type", Enforcement.ENFORCED, ""),
    (
        {"type": "string", "format": "uri"},
        JsonOptions(max_string_length=50),
        "/type",
        Enforcement.NARROWED,
        "at most 50 characters",
    ),
    (
        {"type": "string", "format": "mine"},
        JsonOptions(max_string_length=50),
        "/type",
        Enforcement.NARROWED,
        "at most 50 characters",
    ),
    (
        {"type": "string", "format": "date"},
        JsonOptions(max_string_length=50, format=FormatMode.ANNOTATE),
        "/type",
        Enforcement.NARROWED,
        "at most 50 characters",
    ),
    (
        {"type": "string", "format": "ipv4"},
        JsonOptions(max_string_length=14),
        "/type",
        Enforcement.NARROWED,
        "at most 14 characters",
    ),
    (
        {"type": "string", "format": "ipv4"},
        JsonOptions(max_string_length=15),
        "/type",
        Enforcement.ENFORCED,
        "",
    ),
    (
        {"type": "integer", "minimum": 0},
        JsonOptions(),
        "/type",
        Enforcement.NARROWED,
        "at most 20 digits on either side of the point",
    ),
    *(
        (schema, JsonOptions(max_string_length=50), "/type", Enforcement.NARROWED, note)
        for schema, note in (
            (
                {"type": "integer", "minimum": 10**25},
                "at most 27 digits before the point and 20 after it",
            ),
            (
                {"type": "number", "multipleOf": 1e-20, "maximum": 10**20},
                "at most 22 digits before the point and 21 after it",
            ),
            ({"type": "string", "minLength": 51}, "at most 51 characters"),
            ({"type": "string", "minLength": 49}, "at most 50 characters"),
            (
                {"type": "string", "pattern": "^a{60}$"},
                "at most 50 characters, unless the pattern needs more",
            ),
        )
    ),
    (
        {"type": "integer", "minimum": 0, "exclusiveMaximum": 9},
        JsonOptions(),
        "/type",
        Enforcement.ENFORCED,
        "",
    ),
    *(
        (schema, JsonOptions(), "/multipleOf", Enforcement.NARROWED, _LISTED)
        for schema in (
            {"multipleOf": 99991},
            {"type": ["integer", "null"], "multipleOf": 99991, "minimum": 10**9},
            {"type": "number", "multipleOf": 0.0625, "maximum": 1e300},
        )
    ),
    *(
        (schema, JsonOptions(), "/multipleOf", Enforcement.ENFORCED, "")
        for schema in (
            {"type": "integer", "multipleOf": 4096, "minimum": 0, "maximum": 2**32},
            {"multipleOf": 99991, "minimum": 0, "exclusiveMaximum": 99991 * 200},
            {"type": "string", "multipleOf": 99991},
        )
    ),
    (
        {"properties": {"a": {}, "b": {}}},
        JsonOptions(),
        "/properties",
        Enforcement.NARROWED,
        "members in the order of the schema",
    ),
    (
        {"properties": {"a": {}, "b": {}}},
        JsonOptions(key_order=KeyOrder.ANY),
        "/properties",
        Enforcement.ENFORCED,
        "",
    ),
]


@pytest.mark.parametrize(
    ("schema", "options", "pointer", "enforcement", "note"), _NOTES, ids=range(len(_NOTES))
)
def test_a_verdict_says_what_is_left_out(
    schema: Any, options: JsonOptions, pointer: str, enforcement: Enforcement, note: str
) -> None:
    assert _verdicts(schema, options)[pointer] == Verdict(pointer, enforcement, note)


def test_keywords_of_documents_are_judged_and_those_of_metaschemas_are_not() -> None:
    schema = {
        "items": {"$ref": "http://x.org/a"},
        "not": {"$ref": "http://json-schema.org/draft-07/schema"},
    }
    documents = (("http://x.org/a", '{"minimum": 1}'),)
    lowered = lower_json_schema(JsonSchema(json.dumps(schema), documents=documents))
    assert [verdict.pointer for verdict in lowered.verdicts] == [
        "/items",
        "/not",
        "/items/$ref",
        "/not/$ref",
        "http://x.org/a#/minimum",
    ]


def test_the_table_in_the_documentation_is_current() -> None:
    page = (Path(__file__).parents[3] / "docs" / "json-schema-support.md").read_text()
    assert replace_table(page) == page, (
        "run python -m guided.json_schema.reader.verdicts docs/json-schema-support.md"
    )
    assert "| `unevaluatedItems` | 2019-09 to 2020-12 | enforced |" in page
