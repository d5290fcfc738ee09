"""Reads tools in the forms in which a caller may give them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from guided.errors import RequestError
from guided.response_types.schema_text import adapter_of, schema_of_adapter, schema_text
from guided.spec import Constraint, Tool, ToolUse
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HERMES

__all__ = ["tool_use"]


def tool_use(
    tools: Iterable[object], choice: str, *, parallel: bool, beside: Constraint
) -> ToolUse | None:
    """Return the checked tools of a request; ``beside`` constrains answers that call none."""
    listed = tuple(_tool(number, subject) for number, subject in enumerate(tools))
    if listed:
        use = ToolUse(listed, choice, parallel)
        # The server repeats this with its model's format; here it reports faults before sending.
        with_calls(use, beside, HERMES)
        return use
    for name, is_default in (("tool_choice", choice == "auto"), ("parallel_tool_calls", parallel)):
        if not is_default:
            raise RequestError(f"{name} needs tools", field=name)
    return None


def _tool(number: int, subject: object) -> Tool:
    match subject:
        case Tool():
            return subject
        case {"type": "function", "function": {"name": str(name), **others}, **more} if not more:
            return _function(number, name, {str(key): value for key, value in others.items()})
        case {"type": "custom"}:
            raise RequestError(
                f"tool {number} is a custom tool in the form of OpenAI's API",
                field="tools",
                hint="write guided.Tool(name, description, input=guided.Lark(...))",
            )
        case type():
            text = schema_of_adapter(adapter_of(subject))
            # The type itself decides whether further members are kept.
            return Tool(subject.__name__, inspect.cleandoc(subject.__doc__ or ""), text, False)
    raise RequestError(
        f"tool {number} is {subject!r}, which is no tool",
        field="tools",
        hint="pass a guided.Tool, a pydantic model, or a mapping as OpenAI's API has it",
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
