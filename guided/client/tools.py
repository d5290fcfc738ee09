"""Reads tools in the forms in which a caller may give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_origin

from guided.client.typed_tools import TypedTool, function_tool, model_tool
from guided.errors import RequestError
from guided.response_types.schema_text import schema_text
from guided.spec import Constraint, Tool, ToolUse
from guided.spec.custom_tools import custom_tool
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HERMES

__all__ = ["given_tools", "tool_use"]


def given_tools(tools: Iterable[object]) -> tuple[TypedTool, ...]:
    """Return the tools of a request in the form of the engine; raises ``RequestError``."""
    return tuple([_tool(number, subject) for number, subject in enumerate(tools)])


def tool_use(
    tools: Iterable[TypedTool], choice: str, *, parallel: bool, beside: Constraint
) -> ToolUse | None:
    """Return the checked tools of a request; ``beside`` constrains answers that call none."""
    listed = tuple([each.tool for each in tools])
    if listed:
        use = ToolUse(listed, choice, parallel)
        # The server repeats this with its model's format; here it reports faults before sending.
        with_calls(use, beside, HERMES)
        return use
    for name, is_default in (("tool_choice", choice == "auto"), ("parallel_tool_calls", parallel)):
        if not is_default:
            raise RequestError(f"{name} needs tools", field=name)
    return None


def _tool(number: int, subject: object) -> TypedTool:
    match subject:
        case Tool():
            return TypedTool(subject)
        case {"type": "function", "function": {"name": str(name), **others}, **more} if not more:
            named = {str(key): value for key, value in others.items()}
            return TypedTool(_function(number, name, named))
        case {"type": "custom", **others}:
            members = {"type": "custom"} | {str(key): value for key, value in others.items()}
            return TypedTool(custom_tool(members, f"tool {number}"))
        case type():
            return model_tool(subject)
    # A type like list[int] can be called, too.
    if callable(subject) and get_origin(subject) is None:
        return function_tool(subject)
    raise RequestError(
        f"tool {number} is {subject!r}, which is no tool",
        field="tools",
        hint="pass a function, a pydantic model, a guided.Tool, or a mapping as OpenAI's API has "
        "it",
    )


def _function(number: int, name: str, others: dict[str, Any]) -> Tool:
    description, strict = others.pop("description", None), others.pop("strict", None)
    parameters = others.pop("parameters", None)
    if others or not (
        isinstance(description, str | None)
        and isinstance(parameters, Mapping | None)
        and isinstance(strict, bool | None)
    ):
        raise RequestError(
            f"the function of tool {number} has a member other than name, description, parameters "
            "and strict, or one of the wrong type",
            field="tools",
        )
    text = "" if parameters is None else schema_text(parameters)
    return Tool(name, description or "", text, strict is not False)
