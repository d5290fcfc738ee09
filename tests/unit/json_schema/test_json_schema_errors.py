"""Refused schemas, each with the kind of error, the place and the message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guided.errors import (
    ConstraintError,
    GuidedError,
    InvalidConstraintError,
    LimitExceededError,
    UnsupportedFeatureError,
)
from guided.json_schema.formulas.formula import Formula
from guided.json_schema.machine.json_machine import JsonMachine
from guided.json_schema.reader import lower_json_schema
from guided.json_schema.reader.schema_index import MAX_LOCATIONS
from guided.runtime.work_budget import limited_work
from guided.spec import JsonSchema

_REFUSED: list[tuple[str, type[GuidedError], str]] = [
    # --- the text -------------------------------------------------------------------------
    ("{", InvalidConstraintError, "at the root: the schema is not JSON: Expecting property name"),
    ("\ufeff{}", InvalidConstraintError, "line 1, column 1; save it as UTF-8 without a byte order"),
    ("{'a': 1}", InvalidConstraintError, "line 1, column 2; JSON has double quotes, no comments"),
    (
        '{"not": [true,\n {"a": "b"\n "c": 1}]}',
        InvalidConstraintError,
        "at /not/1: the schema is not JSON: Expecting ',' delimiter, line 3, column 2",
    ),
    ('{"a": ["\t"]}', InvalidConstraintError, "at /a/0: the schema is not JSON: Invalid control"),
    ('{"a": [1]]}', InvalidConstraintError, "at the root: the schema is not JSON: Expecting ','"),
    ("{} {}", InvalidConstraintError, "at the root: the schema is not JSON: Extra data, line 1"),
    ("3", InvalidConstraintError, "at the root: a schema is an object or a boolean, not 3"),
    ("[]", InvalidConstraintError, "at the root: a schema is an object or a boolean, not []"),
    (
        '{"a": [{"b/c": {"d": 1,\n"d": 2}}]}',
        InvalidConstraintError,
        "at /a/0/b~1c: the object names the member 'd' twice, line 2, column 1; keep one",
    ),
    (
        '{"minimum": NaN}',
        InvalidConstraintError,
        "at /minimum: NaN is no JSON number, line 1, column 13; leave the keyword out",
    ),
    ('{"not": {"maximum": -Infinity}}', InvalidConstraintError, "at /not/maximum: -Infinity is no"),
    (
        '{"enum": [1, "\\ud800"]}',
        InvalidConstraintError,
        "at /enum/1: the string '\\ud800' holds half of a surrogate pair, which no text can, "
        "line 1, column 14; write the whole character",
    ),
    ('{"enum": ["\ud800"]}', InvalidConstraintError, "at /enum/0: the string '\\ud800' holds half"),
    ('{"properties": {"\\uDFFF": {}}}', InvalidConstraintError, "at /properties: the string "),
    (
        "[" * 100_000,
        LimitExceededError,
        "at " + "/0" * 200 + ": the schema is nested deeper than 200",
    ),
    (
        '{"not": ' * 200 + "{}" + "}" * 200,
        LimitExceededError,
        "is nested deeper than 200, line 1, column 1601; move inner schemas to '$defs'",
    ),
    (
        '{"description": "' + "x" * 1_000_000 + '"}',
        LimitExceededError,
        "at the root: the schema has 1000019 bytes, more than 1000000; leave out notes",
    ),
    (
        '{"a": {}, "minimum": 1e9999999}',
        LimitExceededError,
        "at /minimum: the number 1e9999999 has more digits than 400, line 1, column 22; write one",
    ),
    ('{"minimum": -1e99999999999999999999}', LimitExceededError, "has more digits than 400"),
    (
        '{"minLength": 1' + "0" * 500 + "}",
        LimitExceededError,
        "at /minLength: the number 10000000000000000000… has more digits than 400",
    ),
    (
        '{"minLength": 100000, "type": "string"}',
        LimitExceededError,
        "at the root: no document was found, and none with more than 100000 bytes was tried; ",
    ),
    (
        json.dumps({"allOf": [{}] * (MAX_LOCATIONS + 1)}),
        LimitExceededError,
        "the schema holds more than 50000 subschemas",
    ),
    # --- forms ----------------------------------------------------------------------------
    ('{"type": "text"}', InvalidConstraintError, 'at /type: "text" is no type; one of null,'),
    ('{"type": ["null", "any"]}', InvalidConstraintError, 'at /type: "any" is no type'),
    (
        json.dumps({"type": "x" * 900}),
        InvalidConstraintError,
        'at /type: "' + "x" * 39 + " is no type; one of null,",
    ),
    ("[1e-390, 2.50]", InvalidConstraintError, "or a boolean, not [1E-390,2.50]"),
    ('{"type": []}', InvalidConstraintError, "at /type: type is a name or a list of at least one"),
    ('{"type": {}}', InvalidConstraintError, "at /type: type is a name or a list of at least one"),
    ('{"minLength": -1}', InvalidConstraintError, "at /minLength: minLength is a whole number"),
    ('{"maxItems": 1.5}', InvalidConstraintError, "at /maxItems: maxItems is a whole number"),
    ('{"minimum": true}', InvalidConstraintError, "at /minimum: minimum is a number, not true"),
    ('{"multipleOf": 0}', InvalidConstraintError, "at /multipleOf: multipleOf is a number above 0"),
    ('{"enum": 1}', InvalidConstraintError, "at /enum: enum is a list, not 1"),
    ('{"uniqueItems": 1}', InvalidConstraintError, "at /uniqueItems: uniqueItems is true or false"),
    (
        '{"pattern": "["}',
        InvalidConstraintError,
        "at /pattern: the pattern is wrong at character 0: unmatched '['",
    ),
    ('{"patternProperties": {"[": {}}}', InvalidConstraintError, "at /patternProperties/[: the "),
    ('{"required": [1]}', InvalidConstraintError, "at /required/0: required lists names, not 1"),
    (
        '{"properties": {"a": {"required": true}}}',
        InvalidConstraintError,
        "at /properties/a/required: required is a list, not true; list the names in",
    ),
    ('{"properties": []}', InvalidConstraintError, "at /properties: properties is an object"),
    ('{"properties": {"a": 1}}', InvalidConstraintError, "at /properties/a: a schema is an object"),
    ('{"not": []}', InvalidConstraintError, "at /not: not is a schema, not []"),
    ('{"anyOf": []}', InvalidConstraintError, "at /anyOf: anyOf is a list of at least one schema"),
    ('{"allOf": [{}, 1]}', InvalidConstraintError, "at /allOf/1: a schema is an object or a bool"),
    ('{"dependentRequired": {"a": "b"}}', InvalidConstraintError, "at /dependentRequired: depend"),
    ('{"dependencies": {"a": "b"}}', InvalidConstraintError, "at /dependencies: dependencies is"),
    ('{"$defs": {"unused": {"minimum": "1"}}}', InvalidConstraintError, "at /$defs/unused/minimum"),
    ('{"$anchor": []}', InvalidConstraintError, "at /$anchor: $anchor is a string, not []"),
    # --- references -----------------------------------------------------------------------
    ('{"$ref": "#/$defs/x"}', InvalidConstraintError, "at /$ref: the reference '#/$defs/x' names "),
    ('{"$ref": "#x"}', InvalidConstraintError, "names nothing: no schema of the schema is 'x'"),
    ('{"$ref": "#/a", "a": "b"}', InvalidConstraintError, "at /a: a schema is an object or a"),
    ('{"$ref": "#/a/0", "a": [{"type": 1}]}', InvalidConstraintError, "at /a/0/type: type is a"),
    (
        '{"$ref": "http://example.org/x#/y"}',
        InvalidConstraintError,
        "at /$ref: the reference 'http://example.org/x#/y' leads to 'http://example.org/x', which "
        "is not among the documents; pass it with the schema",
    ),
    (
        '{"$ref": "http://[x#y"}',
        InvalidConstraintError,
        "at /$ref: 'http://[x#y' is no reference to a",
    ),
    (
        '{"not": {"$id": "http://[x#y"}}',
        InvalidConstraintError,
        "at /not/$id: 'http://[x#y' is no ref",
    ),
    (
        json.dumps({"$ref": "#/allOf/" + "9" * 9999, "allOf": [{}]}),
        InvalidConstraintError,
        "9999' is no index there; name an '$anchor'",
    ),
    (
        '{"allOf": [{}, {}], "items": {"$ref": "#/allOf/01"}}',
        InvalidConstraintError,
        "at /items/$ref: the reference '#/allOf/01' names nothing: '01' is no index there; name an",
    ),
    (
        '{"$id": "my schema"}',
        InvalidConstraintError,
        "at /$id: 'my schema' is no reference to a URI; write what is no letter, digit or mark",
    ),
    ('{"not": {"$id": "%zz"}}', InvalidConstraintError, "at /not/$id: '%zz' is no reference to a"),
    ('{"$ref": "#"}', InvalidConstraintError, "at the root: the schema refers to nothing but"),
    (
        '{"items": {"anyOf": [{"type": "null"}, {"not": {"$ref": "#/items"}}]}}',
        InvalidConstraintError,
        "the schema refers to nothing but itself",
    ),
    (
        '{"$ref": "#a", "$defs": {"x": {"$anchor": "a"}, "y": {"$anchor": "a"}}}',
        InvalidConstraintError,
        "at /$ref: the reference '#a' names several schemas",
    ),
    (
        '{"$ref": "a", "$defs": {"x": {"$id": "a"}, "y": {"$id": "a"}}}',
        InvalidConstraintError,
        "at /$ref: the reference 'a' names several schemas",
    ),
    # --- dialects -------------------------------------------------------------------------
    (
        '{"$schema": "http://json-schema.org/draft-03/schema#"}',
        UnsupportedFeatureError,
        "at /$schema: the dialect 'http://json-schema.org/draft-03/schema' is not known; one of "
        "http://json-schema.org/draft-04/schema, ",
    ),
    ('{"$schema": 4}', InvalidConstraintError, "at /$schema: $schema is a string, not 4"),
    # --- limits ---------------------------------------------------------------------------
    (
        json.dumps(
            {
                "anyOf": [{"patternProperties": {f"a{n}": True}} for n in range(10)],
                "unevaluatedProperties": False,
            }
        ),
        LimitExceededError,
        "at /unevaluatedProperties: unevaluatedProperties depends on 10 conditions, which make "
        "more than 512 cases",
    ),
]


@pytest.mark.parametrize(("text", "kind", "message"), _REFUSED, ids=range(len(_REFUSED)))
def test_a_schema_that_cannot_be_enforced_is_refused_with_its_place(
    text: str, kind: type[GuidedError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        JsonMachine(lower_json_schema(JsonSchema(text)).grammar)
    assert type(caught.value) is kind
    assert message in str(caught.value)
    if isinstance(caught.value, ConstraintError) and str(caught.value).startswith("at /"):
        assert str(caught.value).startswith(f"at {caught.value.pointer}: ")


@pytest.mark.parametrize(
    "schema",
    [
        {"items": {"$ref": "#"}},
        {"properties": {"a": {"$ref": "#"}}},
        {"additionalProperties": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        {"contains": {"not": {"$ref": "#"}}},
        {"$defs": {"x": {"$anchor": "a"}, "y": {"$anchor": "a"}}},
        {"$defs": {"x": {"$ref": "#/$defs/y"}}},
        {"$defs": {"x": {"$ref": "#/$defs/x"}}},
        {"$defs": {"x": {"$ref": "http://example.org/"}}},
        {"$defs": {"x": {"pattern": "("}}, "items": {"$ref": "#/$defs/y"}},
        {"if": {"$ref": "#"}},
        {"anyOf": [True, {"$ref": "#"}]},
    ],
)
def test_recursion_and_faults_do_no_harm_where_nothing_hangs_on_them(schema: Any) -> None:
    schema.setdefault("$defs", {})["y"] = {"type": "null"}
    grammar = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
    assert all(isinstance(node.formula, Formula) for node in grammar.nodes())


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"pattern": "("}, "/pattern: the pattern is wrong at character 0: unmatched '('"),
        (
            {"patternProperties": {"a": {}, "(": {}}},
            "/patternProperties/(: the pattern is wrong at character 0: unmatched '('",
        ),
        ({"$ref": "#/$defs/y"}, "/$ref: the reference '#/$defs/y' names nothing"),
        ({"anyOf": [{"$ref": "#/$defs/x"}]}, ": the schema refers to nothing but itself"),
        ({"not": {"if": {"$dynamicRef": "#/$defs/x"}, "then": False}}, "refers to nothing but"),
        ({"dependentSchemas": {"a": {"$ref": "#/$defs/x"}}}, "refers to nothing but itself"),
    ],
)
def test_a_fault_is_told_at_once_wherever_an_answer_would_get_to_it(
    fault: object, message: str
) -> None:
    schema = {"properties": {"a": {"items": {"$ref": "#/$defs/x"}}}, "$defs": {"x": fault}}
    with pytest.raises(InvalidConstraintError) as caught:
        lower_json_schema(JsonSchema(json.dumps(schema)))
    assert message in str(caught.value)
    assert (caught.value.pointer or "").startswith("/$defs/x")


def test_a_part_costs_nothing_until_a_text_gets_to_it() -> None:
    schema: Any = {"oneOf": [{"const": number} for number in range(1_000)]}
    for _ in range(9):
        schema = {"properties": {"a": schema}}
    with limited_work(20_000):
        machine = JsonMachine(lower_json_schema(JsonSchema(json.dumps(schema))).grammar)
    with limited_work(20_000), pytest.raises(LimitExceededError):
        machine.advance(machine.start, b'{"a":' * 9)


def test_unevaluated_properties_behind_many_branches_stay_small() -> None:
    branches = [{"properties": {f"p{n}": True}, "required": [f"p{n}"]} for n in range(200)]
    schema = {"anyOf": branches, "unevaluatedProperties": False}
    grammar = lower_json_schema(JsonSchema(json.dumps(schema))).grammar
    assert len(grammar.nodes()) == 201
