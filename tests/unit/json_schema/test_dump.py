"""The intermediate form of schemas, printed."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from guided.json_schema.formulas.dump import MAX_LEVELS, MAX_PATTERN, dump
from guided.json_schema.reader import lower_json_schema
from guided.spec import JsonSchema

_OBJECT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "pattern": "^[A-Z][a-z]*$"},
        "age": {"type": "integer", "minimum": 0, "exclusiveMaximum": 150},
    },
    "patternProperties": {"^x-": {"type": ["null", "boolean"]}},
    "additionalProperties": False,
    "required": ["name"],
    "propertyNames": {"maxLength": 8},
    "dependentRequired": {"age": ["x-since"]},
    "maxProperties": 5,
}
_BRANCHES = {
    "oneOf": [{"type": "number"}, {"multipleOf": 0.5}],
    "not": {"enum": [1, "two", None]},
    "if": {"minimum": 3},
    "then": {"maximum": 7},
}
_ARRAY = {
    "prefixItems": [{"const": [True, {"a": 1}]}],
    "items": {"type": "string"},
    "contains": {"enum": ["a", "b"]},
    "maxContains": 2,
    "uniqueItems": True,
    "minItems": 3,
}
_RECURSION = {
    "$ref": "#/$defs/tree",
    "$defs": {"tree": {"properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#"}}}},
}

_GOLDEN: list[tuple[Any, str]] = [
    (
        _OBJECT,
        """\
#0 (root)
    all of
        is object
        members
            "name": #1
            "age": #2
            /^x-/: #3
            others: nothing
        every name is: #4
        0 to 5 members
        has "name"
        any of
            not: has "age"
            has "x-since"

#1 /properties/name
    all of
        is string
        string: 1 or more code points
        string: found /^[A-Z][a-z]*$/

#2 /properties/age
    all of
        is number
        number: whole, >= 0, < 150

#3 /patternProperties/^x-
    is null or boolean

#4 /propertyNames
    string: 0 to 8 code points
""",
    ),
    (
        _BRANCHES,
        """\
#0 (root)
    all of
        any of
            all of
                #1
                not: #2
            all of
                #2
                not: #1
        not: #3
        any of
            all of
                #4
                #5
            not: #4

#1 /oneOf/0
    is number

#2 /oneOf/1
    number: multiple of 0.5

#3 /not
    all of
        is null or number or string
        number: 1
        string: "two"

#4 /if
    number: >= 3

#5 /then
    number: <= 7
""",
    ),
    (
        _ARRAY,
        """\
#0 (root)
    all of
        items
            [0]: #1
            others: #2
        1 to 2 items are: #3
        items differ
        3 or more items

#1 /prefixItems/0
    all of
        is array
        items
            [0]
                all of
                    is boolean
                    boolean: true
            [1]
                all of
                    is object
                    members
                        "a"
                            all of
                                is number
                                number: 1
                        others: nothing
                    has "a"
            others: nothing
        2 items

#2 /items
    is string

#3 /contains
    all of
        is string
        string: "a" or "b"
""",
    ),
    (
        _RECURSION,
        """\
#0 (root)
    #1

#1 /$defs/tree
    members
        "left": #2
        "right": #3
        others: anything

#2 /$defs/tree/properties/left
    #1

#3 /$defs/tree/properties/right
    #0
""",
    ),
    (
        False,
        """\
root
    nothing
""",
    ),
    (
        {"$ref": "#/$defs/x", "$defs": {"x": {}}},
        """\
#0 (root)
    anything
""",
    ),
]


@pytest.mark.parametrize(("schema", "expected"), _GOLDEN)
def test_a_schema_is_read_as(schema: Any, expected: str) -> None:
    text = json.dumps(schema)
    assert dump(lower_json_schema(JsonSchema(text)).grammar) == expected
    assert dump(lower_json_schema(JsonSchema(text)).grammar) == expected, "it is the same each time"


def test_what_would_fill_pages_is_cut_off() -> None:
    schema: Any = {"const": 1}
    for number in range(MAX_LEVELS):
        schema = {"const": {f"a{number}": [schema]}}
    printed = dump(lower_json_schema(JsonSchema(json.dumps(schema))).grammar)
    assert "…" in printed
    printed = dump(lower_json_schema(JsonSchema('{"format": "uri"}')).grammar)
    assert len(printed) < MAX_PATTERN + 60
    assert printed.endswith("…/\n")


@pytest.mark.parametrize(
    "pattern",
    [r"^[+\-z]$", r"x\$", r"\*", r"[\^a]", r"(?:a\+)?b", "(?:a*)?b", "(?:a+){2}", r"\\\]", "[a-z]"],
)
def test_a_printed_pattern_means_what_it_says(pattern: str) -> None:
    grammar = lower_json_schema(JsonSchema(json.dumps({"type": "string", "pattern": pattern})))
    (printed,) = re.findall("/(.*)/", dump(grammar.grammar))
    for length in range(4):
        for letters in itertools.product("a+-z$*^,\\]bx", repeat=length):
            text = "".join(letters)
            assert bool(re.search(printed, text)) == bool(re.search(pattern, text)), text
