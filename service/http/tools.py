"""Tools as OpenAI's clients send them: in chats, and less nested in requests of responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from pydantic import Field

from guided import spec
from guided.errors import RequestError
from guided.spec import JsonSchema
from guided.spec.tool_calls import with_calls
from guided.spec.tool_format import HERMES
from guided.spec.tools import MAX_TOOLS, input_field, parameters_field
from guided_service.http.constraints import Wanted
from guided_service.http.custom_tools import ChatCustom, ResponseCustom, ToolName
from guided_service.http.fields import Given, Listed
from guided_service.http.sent_names import named_as_sent
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = [
    "AllowedMode",
    "ChatTool",
    "Choice",
    "Chosen",
    "Function",
    "FunctionTool",
    "Reference",
    "ResponseTool",
    "ResponseToolChoice",
    "ToolChoice",
    "chosen_of",
    "custom_names",
    "definition_fields",
    "tool_use",
]


class Function(Given):
    """A function that the model may call."""

    definition_path: ClassVar[str] = "parameters"

    name: ToolName
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


class ChatFunctionTool(Given):
    """A function, as a tool of a chat."""

    type: Literal["function"]
    function: Function


class ChatCustomTool(Given):
    """A custom tool of a chat."""

    type: Literal["custom"]
    custom: ChatCustom


ChatTool: TypeAlias = Annotated[ChatFunctionTool | ChatCustomTool, OneOf("type")]


class Named(Given):
    """A tool by its name."""

    name: str


class NamedChoice(Given):
    """The one function that must be called, or one of those that may be."""

    type: Literal["function"]
    function: Named


class NamedCustomChoice(Given):
    """The one custom tool that must be called, or one of those that may be."""

    type: Literal["custom"]
    custom: Named


NamedTool: TypeAlias = NamedChoice | NamedCustomChoice
AllowedMode: TypeAlias = Literal["auto", "required"]


class AllowedTools(Given):
    """The tools that may be called, of all tools."""

    mode: AllowedMode
    tools: Annotated[
        Listed[Annotated[NamedTool, OneOf("type")]], Field(min_length=1, max_length=MAX_TOOLS)
    ]


class AllowedChoice(Given):
    """A choice among some of the tools."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


Choice: TypeAlias = Literal["none", "auto", "required"]
ToolChoice: TypeAlias = Annotated[
    Choice | Annotated[NamedChoice | NamedCustomChoice | AllowedChoice, OneOf("type")], OneOfKinds()
]


class FunctionTool(Function):
    """A function, as a tool of a response."""

    type: Literal["function"]


class CustomTool(ResponseCustom):
    """A custom tool of a response."""

    type: Literal["custom"]


ResponseTool: TypeAlias = Annotated[FunctionTool | CustomTool, OneOf("type")]
AnyTool: TypeAlias = ChatFunctionTool | ChatCustomTool | FunctionTool | CustomTool


class ChosenFunction(Named):
    """A function by its name: one that must be called, or one that may be."""

    type: Literal["function"]


class ChosenCustom(Named):
    """A custom tool by its name, likewise."""

    type: Literal["custom"]


ChosenTool: TypeAlias = ChosenFunction | ChosenCustom


class ChosenTools(Given):
    """A choice among some of the tools."""

    type: Literal["allowed_tools"]
    mode: AllowedMode
    tools: Annotated[
        Listed[Annotated[ChosenTool, OneOf("type")]], Field(min_length=1, max_length=MAX_TOOLS)
    ]


ResponseToolChoice: TypeAlias = Annotated[
    Choice | Annotated[ChosenFunction | ChosenCustom | ChosenTools, OneOf("type")], OneOfKinds()
]


@dataclass(frozen=True, slots=True)
class Reference:
    """A tool by its kind and name."""

    kind: Literal["function", "custom"]
    name: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which tools may be called."""

    word: Choice = "auto"
    named: Reference | None = None
    """The one tool that must be called."""
    allowed: tuple[Reference, ...] | None = None
    """The only tools that may be called."""


def chosen_of(choice: ToolChoice | ResponseToolChoice | None) -> Chosen:
    """Return which tools a request chooses."""
    match choice:
        case NamedChoice() | NamedCustomChoice() | ChosenFunction() | ChosenCustom():
            return Chosen(named=_reference(choice))
        case AllowedChoice(allowed_tools=AllowedTools(mode=mode, tools=tools)):
            return Chosen(mode, allowed=tuple(map(_reference, tools)))
        case ChosenTools(mode=mode, tools=tools):
            return Chosen(mode, allowed=tuple(map(_reference, tools)))
    return Chosen(choice or "auto")


def _reference(named: NamedTool | ChosenTool) -> Reference:
    match named:
        case NamedChoice(function=inner) | NamedCustomChoice(custom=inner):
            return Reference(named.type, inner.name)
        case ChosenFunction() | ChosenCustom():
            return Reference(named.type, named.name)


def _inner(tool: AnyTool) -> Function | ChatCustom | ResponseCustom:
    """Return a tool without its kind."""
    match tool:
        case ChatFunctionTool(function=function):
            return function
        case ChatCustomTool(custom=custom):
            return custom
    return tool


def custom_names(tools: Iterable[AnyTool]) -> frozenset[str]:
    """Return the names of the custom tools."""
    return frozenset(_inner(tool).name for tool in tools if tool.type == "custom")


def definition_fields(tools: Iterable[AnyTool]) -> dict[str, str]:
    """Map the fields of inputs and parameters in the engine's request to those in the body."""
    found = {}
    for at, tool in enumerate(tools):
        inner = _inner(tool)
        field = input_field if tool.type == "custom" else parameters_field
        within = "" if inner is tool else f"{tool.type}."
        found[field(inner.name)] = f"tools[{at}].{within}{inner.definition_path}"
    return found


def tool_use(
    tools: Sequence[AnyTool], chosen: Chosen, beside: Wanted | None, *, is_parallel: bool
) -> spec.ToolUse | None:
    """Return the tools of a request; raises RequestError if they conflict with its constraint."""
    if not tools:
        return None
    found = tuple(_inner(tool).tool() for tool in tools)
    choice: str = chosen.word
    if chosen.named is not None:
        choice = chosen.named.name
        # A tool may be named like one of the words of a choice.
        _check_listed([chosen.named], tools)
    if chosen.allowed is not None:
        _check_listed(chosen.allowed, tools)
        names = {each.name for each in chosen.allowed}
        found = tuple(tool for tool in found if tool.name in names)
    if choice != "none" and beside is not None and not isinstance(beside.structure, JsonSchema):
        raise RequestError(
            f"{beside.field} is not JSON, so it cannot be told from calls of tools",
            field=beside.field,
            hint="leave it or the tools out, or set tool_choice to none",
        )
    use = spec.ToolUse(found, choice, is_parallel)
    # The engine repeats this with the model's own format; here it reports faulty tools early.
    with named_as_sent(definition_fields(tools)):
        with_calls(use, None if beside is None else beside.structure, HERMES)
    return use


def _check_listed(references: Iterable[Reference], tools: Iterable[AnyTool]) -> None:
    kinds = {_inner(tool).name: tool.type for tool in tools}
    for each in references:
        kind = kinds.get(each.name)
        if kind is None:
            raise RequestError(
                f"tool_choice names {each.name[:80]!r}, which is none of the tools",
                field="tool_choice",
            )
        if kind != each.kind:
            raise RequestError(
                f"tool_choice names {each.name!r} by the type {each.kind!r}, but the tool is of "
                f"type {kind!r}",
                field="tool_choice",
            )
