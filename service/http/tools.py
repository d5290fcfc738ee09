"""Tools as OpenAI's clients send them: in chats, and less nested in requests of responses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from pydantic import Field

from guided import spec
from guided.errors import RequestError
from guided.spec import JsonSchema
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HERMES
from guided.spec.tools import MAX_TOOLS
from guided_service.http.constraints import Wanted
from guided_service.http.fields import Given, Listed
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = [
    "AllowedMode",
    "Choice",
    "Chosen",
    "Function",
    "FunctionTool",
    "ResponseToolChoice",
    "Tool",
    "ToolChoice",
    "chosen_of",
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
    """The one function that must be called, or one of those that may be."""

    type: Literal["function"]
    function: Named


AllowedMode: TypeAlias = Literal["auto", "required"]


class AllowedTools(Given):
    """The tools that may be called, of all tools."""

    mode: AllowedMode
    tools: Annotated[Listed[NamedChoice], Field(min_length=1, max_length=MAX_TOOLS)]


class AllowedChoice(Given):
    """A choice among some of the tools."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


Choice: TypeAlias = Literal["none", "auto", "required"]
ToolChoice: TypeAlias = Annotated[
    Choice | Annotated[NamedChoice | AllowedChoice, OneOf("type")], OneOfKinds()
]


class FunctionTool(Function):
    """A tool of a response."""

    type: Literal["function"]


class ChosenFunction(Given):
    """A function by its name: one that must be called, or one that may be."""

    type: Literal["function"]
    name: str


class ChosenTools(Given):
    """A choice among some of the tools."""

    type: Literal["allowed_tools"]
    mode: AllowedMode
    tools: Annotated[Listed[ChosenFunction], Field(min_length=1, max_length=MAX_TOOLS)]


ResponseToolChoice: TypeAlias = Annotated[
    Choice | Annotated[ChosenFunction | ChosenTools, OneOf("type")], OneOfKinds()
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which tools may be called."""

    word: Choice = "auto"
    named: str | None = None
    """The one function that must be called."""
    allowed: tuple[str, ...] | None = None
    """The only functions that may be called."""


def chosen_of(choice: ToolChoice | ResponseToolChoice | None) -> Chosen:
    """Return which tools a request chooses."""
    match choice:
        case NamedChoice(function=function):
            return Chosen(named=function.name)
        case ChosenFunction(name=name):
            return Chosen(named=name)
        case AllowedChoice(allowed_tools=allowed):
            names = tuple(tool.function.name for tool in allowed.tools)
            return Chosen(allowed.mode, allowed=names)
        case ChosenTools(mode=mode, tools=tools):
            return Chosen(mode, allowed=tuple(tool.name for tool in tools))
    return Chosen(choice or "auto")


def tool_use(
    tools: list[Tool], chosen: Chosen, beside: Wanted | None, *, is_parallel: bool
) -> spec.ToolUse | None:
    """Return the tools of a request; raises RequestError if they conflict with its constraint."""
    if not tools:
        return None
    found = tuple(tool.function.tool() for tool in tools)
    choice: str = chosen.word
    if chosen.named is not None:
        choice = chosen.named
        # A function may be named like one of the words of a choice.
        _check_listed([choice], found)
    if chosen.allowed is not None:
        _check_listed(chosen.allowed, found)
        found = tuple(tool for tool in found if tool.name in chosen.allowed)
    if choice != "none" and beside is not None and not isinstance(beside.structure, JsonSchema):
        raise RequestError(
            f"{beside.field} is not JSON, so it cannot be told from calls of tools",
            field=beside.field,
            hint="leave it or the tools out, or set tool_choice to none",
        )
    use = spec.ToolUse(found, choice, is_parallel)
    # The engine repeats this with the model's own format; here it reports faulty tools early.
    with_calls(use, None if beside is None else beside.structure, HERMES)
    return use


def _check_listed(names: Iterable[str], tools: tuple[spec.Tool, ...]) -> None:
    listed = {tool.name for tool in tools}
    for name in names:
        if name not in listed:
            raise RequestError(
                f"tool_choice names {name[:80]!r}, which is none of the tools", field="tool_choice"
            )
