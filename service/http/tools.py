"""Tools as OpenAI's clients send them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from pydantic import Field

from guided import spec
from guided.errors import RequestError
from guided.spec import JsonSchema
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HERMES
from guided.spec.tools import MOST_TOOLS
from guided_service.http.constraints import Wanted
from guided_service.http.fields import Given, Listed
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = [
    "AllowedChoice",
    "AllowedMode",
    "AllowedTools",
    "Choice",
    "Function",
    "Named",
    "NamedChoice",
    "NamedTool",
    "Tool",
    "ToolChoice",
    "tool_use",
]


class Function(Given):
    """A function that the model may call."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    """``False`` leaves objects open, as with a schema."""

    def tool(self) -> spec.Tool:
        """Return the tool as the engine knows it."""
        parameters = (
            "" if self.parameters is None else msgspec.json.encode(self.parameters).decode()
        )
        return spec.Tool(self.name, self.description or "", parameters, self.strict is not False)


class Tool(Given):
    """A tool; functions are the only kind."""

    type: Literal["function"]
    function: Function


class Named(Given):
    """A function by its name."""

    name: str


class NamedChoice(Given):
    """The one function that must be called."""

    type: Literal["function"]
    function: Named


class NamedTool(Given):
    """A tool of the request; functions are the only kind."""

    type: Literal["function"]
    function: Named


AllowedMode: TypeAlias = Literal["auto", "required"]


class AllowedTools(Given):
    """The tools that may be called, of all tools."""

    mode: AllowedMode
    tools: Annotated[Listed[NamedTool], Field(min_length=1, max_length=MOST_TOOLS)]


class AllowedChoice(Given):
    """A choice among some of the tools."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


Choice: TypeAlias = Literal["none", "auto", "required"]
ToolChoice: TypeAlias = Annotated[
    Choice | Annotated[NamedChoice | AllowedChoice, OneOf("type")], OneOfKinds()
]


def tool_use(
    tools: list[Tool], choice: ToolChoice | None, beside: Wanted | None, *, is_parallel: bool
) -> spec.ToolUse | None:
    """Return the tools of a request; raises RequestError if they conflict with its constraint."""
    if not tools:
        return None
    found = tuple(tool.function.tool() for tool in tools)
    named: str
    match choice:
        case NamedChoice():
            named = choice.function.name
            # A function may be named like one of the words of a choice.
            _check_listed([named], found)
        case AllowedChoice(allowed_tools=allowed):
            named = allowed.mode
            names = [tool.function.name for tool in allowed.tools]
            _check_listed(names, found)
            found = tuple(tool for tool in found if tool.name in names)
        case word:
            named = word or "auto"
    if named != "none" and beside is not None and not isinstance(beside.structure, JsonSchema):
        raise RequestError(
            f"{beside.field} is not JSON, so it cannot be told from calls of tools",
            field=beside.field,
            hint="leave it or the tools out, or set tool_choice to none",
        )
    use = spec.ToolUse(found, named, is_parallel)
    # The engine repeats this with the model's own format; here it reports faulty tools early.
    with_calls(use, None if beside is None else beside.structure, HERMES)
    return use


def _check_listed(names: list[str], tools: tuple[spec.Tool, ...]) -> None:
    listed = {tool.name for tool in tools}
    for name in names:
        if name not in listed:
            raise RequestError(
                f"tool_choice names {name[:80]!r}, which is none of the tools", field="tool_choice"
            )
