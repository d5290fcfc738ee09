"""The grammar of an answer that may call tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from guided.errors import RequestError, naming
from guided.spec import Constraint, JsonSchema, Structure
from guided.spec.closed_objects import closed
from guided.spec.composition import AnyOf, Repeat, Sequence
from guided.spec.tagged import Calls, FreeText, Tag, Tagged
from guided.spec.tool_format import ToolFormat
from guided.spec.tools import Tool, ToolUse

__all__ = ["arguments_of", "with_calls"]

_NOTHING: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}
"""The arguments of a tool that takes none."""


def with_calls(use: ToolUse, beside: Constraint, form: ToolFormat) -> Structure:
    """The constraint of an answer that may call tools.

    ``beside`` is what the answer is where it calls none; without it, any text::

        auto              text with calls in it, or none; where ``beside`` is set, it or calls
        required          calls alone
        one by its name   that call alone
        none              text without any; where ``beside`` is set, it
    """
    tools = use.callable
    if not tools:
        return FreeText(form.trigger) if beside is None else beside
    if beside is not None and not isinstance(beside, JsonSchema):
        raise RequestError(
            "the answer beside tools is no JSON, and so not told from calls of them",
            field="constraint",
            hint="leave it or the tools out, or set tool_choice to none",
        )
    if beside is not None and form.separator is None and beside.options.whitespace != 0:
        raise RequestError(
            "a document with blanks is not told from a call of a tool, as this model writes them",
            field="json_options.whitespace",
            hint="set it to 0",
        )
    tags = [Tag(form.header(tool.name), arguments_of(tool), form.end) for tool in tools]
    if use.choice == "auto" and beside is None and form.separator is not None:
        return Tagged(tags, form.trigger, Calls.AUTO, use.parallel)
    calls = _calls(tags, form.separator if use.parallel and not use.is_named else None)
    if use.choice != "auto":
        return calls
    return AnyOf([FreeText(form.trigger) if beside is None else beside, calls])


def _calls(tags: Iterable[Tag], separator: str | None) -> Structure:
    """One call, or several where something separates them."""
    call = AnyOf([Sequence([tag.begin, tag.body, tag.end]) for tag in tags])
    if separator is None:
        return call
    return Sequence([call, Repeat(Sequence([separator, call]))])


def arguments_of(tool: Tool) -> JsonSchema:
    """The constraint of a tool's arguments; raises RequestError for what is no schema of them."""
    with naming((f"the tool {tool.name}",)):
        read = json.loads(tool.parameters) if tool.parameters else _NOTHING
        schema = {"type": "object"} | read
        if schema["type"] != "object":
            raise RequestError(
                f"its parameters are of type {schema['type']!r}, no object", field="tools"
            )
        held = closed(schema) if tool.strict else schema
        return JsonSchema(json.dumps(held, ensure_ascii=False, separators=(",", ":")))
