"""The schemas of one constraint share the documents that they refer to."""

from __future__ import annotations

import json

import pytest

from guided.constraint.machine import build_machine
from guided.errors import LimitExceededError
from guided.json_schema.reader import lower_json_schema
from guided.runtime.work_budget import limited_work
from guided.spec import JsonSchema
from guided.spec.tool_members import MemberFormat, members_of
from guided.spec.tools import Tool

_TAGS = MemberFormat("<parameter=", ">\n", "\n</parameter>\n")


def test_members_of_a_tool_share_its_schema() -> None:
    members = {f"a{number}": {"type": "integer", "minimum": number} for number in range(20)}
    schema = JsonSchema(json.dumps({"type": "object", "properties": members, "default": [0] * 99}))
    built = build_machine(members_of(Tool("f", parameters=schema.text), schema, _TAGS))
    resources = [lowered.index.resource("tool:f") for _, lowered in built.schemas]
    roots = [resource.root for resource in resources if resource is not None]
    assert len(roots) == len(members)
    assert all(root is roots[0] for root in roots)


def test_documents_of_one_text_and_two_uris_are_two() -> None:
    """Else the second would have no schemas: they are found by their identity."""
    text = json.dumps({"$defs": {"a": {"type": "integer"}}})
    documents = (("http://a", text), ("http://b", text))
    references = [{"$ref": f"{uri}#/$defs/a"} for uri, _ in documents]
    lowered = lower_json_schema(JsonSchema(json.dumps({"anyOf": references}), documents=documents))
    a, b = (lowered.index.resource(uri) for uri, _ in documents)
    assert a is not None
    assert b is not None
    assert a.root is not b.root


def test_reading_a_document_is_paid_for() -> None:
    text = json.dumps({"default": [0] * 100_000})
    schema = JsonSchema('{"$ref": "http://a"}', documents=(("http://a", text),))
    with pytest.raises(LimitExceededError, match="units of work"), limited_work(20_000):
        lower_json_schema(schema)
