"""The constraints of a tool's arguments that refer to its whole schema are bounded."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from guided.errors import LimitExceededError
from guided.spec import JsonSchema, Structure
from guided.spec.tool_literals import literals_of
from guided.spec.tool_members import MemberFormat, members_of
from guided.spec.tools import Tool

_TAGS = MemberFormat("<parameter=", ">\n", "\n</parameter>\n")
_WRITERS: list[Callable[[Tool, JsonSchema], Structure]] = [
    lambda tool, schema: members_of(tool, schema, _TAGS),
    lambda tool, schema: literals_of(tool, schema, "'", "\0"),
]


def _tool(count: int) -> Tool:
    reference = {"$ref": "#/$defs/number"}
    members = {f"a{number}": {"type": "number", "allOf": [reference]} for number in range(count)}
    schema = {
        "type": "object",
        "$defs": {"number": {"type": "number"}},
        "properties": members,
        "additionalProperties": False,
        "description": "d" * 400_000,
    }
    return Tool("f", parameters=json.dumps(schema))


@pytest.mark.parametrize("write", _WRITERS, ids=["members", "literals"])
def test_many_arguments_that_each_have_a_long_document_are_refused(
    write: Callable[[Tool, JsonSchema], Structure],
) -> None:
    few, many = _tool(100), _tool(600)
    assert write(few, JsonSchema(few.parameters)).digest()
    with pytest.raises(LimitExceededError, match="too many parts for so long a schema"):
        write(many, JsonSchema(many.parameters))
