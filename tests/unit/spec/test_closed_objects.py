"""Schemas whose objects are closed: which ones may be, without new documents that fit."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from guided.spec.closed_objects import close_objects

NO_MORE = {"additionalProperties": False}
ONE = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (ONE, {**ONE, **NO_MORE}),
        ({"type": "object"}, {"type": "object"}),
        ({**ONE, "additionalProperties": True}, {**ONE, "additionalProperties": True}),
        ({**ONE, "required": ["b"]}, {**ONE, "required": ["b"]}),
        *(
            (
                {**ONE, "dependentRequired": {"a": names}},
                {**ONE, "dependentRequired": {"a": names}} | more,
            )
            for names, more in ((["b"], {}), (["a"], NO_MORE), ("a", {}))
        ),
        ({"items": ONE}, {"items": {**ONE, **NO_MORE}}),
        ({"anyOf": [ONE, {"type": "null"}]}, {"anyOf": [{**ONE, **NO_MORE}, {"type": "null"}]}),
        ({"allOf": [ONE]}, {"allOf": [ONE]}),
        ({"not": ONE}, {"not": ONE}),
        ({"oneOf": [ONE, {"type": "string"}]}, {"oneOf": [ONE, {"type": "string"}]}),
        (
            {"$defs": {"A": ONE, "B": ONE}, "items": {"$ref": "#/$defs/A"}},
            {
                "$defs": {"A": {**ONE, **NO_MORE}, "B": {**ONE, **NO_MORE}},
                "items": {"$ref": "#/$defs/A"},
            },
        ),
        (
            {"$defs": {"A": ONE}, "not": {"$ref": "#/$defs/A"}},
            {"$defs": {"A": ONE}, "not": {"$ref": "#/$defs/A"}},
        ),
        *(
            (ONE | more, ONE | more | NO_MORE)
            for more in (
                {"examples": [{"id": "a1"}, {"$id": "a1"}]},
                {"default": {"id": "a1"}},
                {"$defs": {"a": {"enum": [{"id": "a1"}]}, "b": {"const": {"$id": "a1"}}}},
                {"properties": {"id": {"type": "string"}, "$id": {"type": "string"}}},
            )
        ),
        *(
            (ONE | more, ONE | more)
            for more in (
                {"$defs": {"id": {"$id": "a1"}}},
                {"items": {"id": "a1"}},
                {"x-parts": [{"$id": "a1"}]},
                {"examples": [{"$id": "a1"}], "items": {"$ref": "#/examples/0"}},
                {"examples": [{"$id": "a1"}], "items": {"$ref": "#/ex%61mples/0"}},
            )
        ),
        ({"$id": "x", **ONE, "items": {"$id": "y"}}, {"$id": "x", **ONE, "items": {"$id": "y"}}),
    ],
)
def test_objects_are_closed_where_that_is_sound(schema: Any, expected: Any) -> None:
    kept = json.dumps(schema)
    assert close_objects(schema) == expected
    assert json.dumps(schema) == kept


def _branch(*values: object, **others: Any) -> dict[str, Any]:
    members = {"kind": {"enum": [*values]}, "x": {"type": "integer"}}
    return {"type": "object", "properties": members, "required": ["kind"]} | others


A, B, C = _branch("a"), _branch("b", 3), _branch("c", None)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"oneOf": [A, B, C]}, {"oneOf": [A | NO_MORE, B | NO_MORE, C | NO_MORE]}),
        (
            {"oneOf": [{"oneOf": [A, B]}, C]},
            {"oneOf": [{"oneOf": [A | NO_MORE, B | NO_MORE]}, C | NO_MORE]},
        ),
        ({"oneOf": [{"oneOf": [A, A]}, C]}, {"oneOf": [{"oneOf": [A, A]}, C | NO_MORE]}),
        *(
            (one, one)
            for one in (
                {"oneOf": [A, _branch("b", "a")]},
                {"oneOf": [A, _branch("b", required=[])]},
                {"oneOf": [_branch(1), _branch(1.5)]},
                {"oneOf": [A, {"anyOf": [B, True]}]},
                {"oneOf": [A, {"allOf": 3}]},
            )
        ),
    ],
)
def test_branches_that_a_member_tells_apart_are_closed(schema: Any, expected: Any) -> None:
    assert close_objects(schema) == expected


@pytest.mark.parametrize(
    ("draft", "is_closed"), [("draft-04", False), ("draft-06", True), ("draft-07", True)]
)
def test_branches_are_told_apart_by_what_their_draft_knows(draft: str, is_closed: bool) -> None:
    kinds = [A | {"properties": {"kind": {"const": kind}}} for kind in "ab"]
    schema = {"$schema": f"http://json-schema.org/{draft}/schema#", "oneOf": kinds}
    assert (close_objects(schema) != schema) == is_closed


def test_what_stands_beside_a_reference_tells_nothing_in_old_drafts() -> None:
    loose = _branch("a", required=[])
    branch = {"$ref": "#/definitions/a", "required": ["kind"]}
    schema = {"oneOf": [branch, B], "definitions": {"a": loose | NO_MORE}}
    assert close_objects(schema) == schema | {"oneOf": [branch, B | NO_MORE]}
    old = schema | {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert close_objects(old) == old


def _schemas(*definitions: str) -> st.SearchStrategy[Any]:
    """Schemas that may refer to these definitions."""
    leaves = [{"type": "integer"}, {"type": "string"}, {"const": "p"}, {"const": "q"}, True]
    return st.recursive(
        st.sampled_from([*leaves, *({"$ref": f"#/$defs/{name}"} for name in definitions)]),
        _larger,
        max_leaves=8,
    )


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=2)
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": members},
        optional={"required": st.sampled_from([["a"], ["b"], []])},
    )
    chosen = st.builds(
        lambda name, parts: {name: parts},
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(inner, min_size=1, max_size=2),
    )
    return st.one_of(
        objects,
        chosen,
        st.builds(lambda one, two: {**one, **two}, objects, chosen),
        st.builds(lambda one: {"not": one}, inner),
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(lambda a, b: {"if": a, "then": b}, inner, inner),
    )


def test_two_keywords_that_leave_parts_open_do_not_hide_each_other() -> None:
    part = {"type": "object", "properties": {}}
    member = {"type": "object", "properties": {}, "anyOf": [{"type": "integer"}]}
    schema = {"type": "object", "properties": {"a": member}, "oneOf": [True, part]}
    for _ in range(20):  # ids are reused with memory
        assert close_objects(schema)["oneOf"] == [True, part]


def _objects(*nested: Any) -> list[dict[str, Any]]:
    """Objects of up to three members."""
    absent = object()
    drawn = itertools.product(
        (absent, 1, "p", "q", *nested), (absent, 1, "q", *nested), (absent, 1)
    )
    return [
        {name: value for name, value in zip("abc", values, strict=True) if value is not absent}
        for values in drawn
    ]


FLAT = [1, "p", "q", *_objects()]
VALUES = [*FLAT, *([one] for one in FLAT), *_objects({"a": 1}, {"a": "p", "b": 1})]


@settings(max_examples=800)
@given(_schemas("d", "e").filter(lambda one: isinstance(one, dict)), _schemas("e"), _schemas())
def test_what_fits_a_closed_schema_fits_the_schema(
    schema: dict[str, Any], one: Any, other: Any
) -> None:
    whole = {**schema, "$defs": {"d": one, "e": other}}
    held, said = (Draft202012Validator(each) for each in (close_objects(whole), whole))
    for value in VALUES:
        assert said.is_valid(value) or not held.is_valid(value)
