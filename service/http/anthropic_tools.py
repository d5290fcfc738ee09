"""Tools as Anthropic's clients send them, as the functions that they are in OpenAI's API too."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from guided_service.http.anthropic_input import CacheControl
from guided_service.http.custom_tools import ToolName
from guided_service.http.fields import Given, Off, On
from guided_service.http.tools import Chosen, FunctionTool, Reference
from guided_service.http.unions import OneOf

__all__ = ["AnthropicTool", "AnthropicToolChoice", "chosen_of", "is_parallel", "tools_of"]

_OWN_TOOLS: Final = (
    "define a tool of your own with its name and an input_schema, and run its calls yourself"
)


class ClientTool(Given):
    """A tool that the caller runs."""

    type: Literal["custom"] = "custom"
    name: ToolName
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None
    """``False`` leaves objects open, as with a schema."""
    cache_control: CacheControl | None = None
    eager_input_streaming: On | None = None
    """Inputs are always streamed as they grow."""
    defer_loading: Off | None = None
    """The model is shown all tools."""
    allowed_callers: Annotated[list[Literal["direct"]], Field(min_length=1)] | None = None
    """Calls are always the model's own."""


class _AsFunction(FunctionTool):
    definition_path: ClassVar[str] = "input_schema"


AnthropicTool: TypeAlias = Annotated[ClientTool, OneOf("type", default="custom", hint=_OWN_TOOLS)]


class _Choice(Given):
    disable_parallel_tool_use: bool = False
    """Whether an answer has at most one call."""


class AutoChoice(_Choice):
    """Calls, if the model decides so."""

    type: Literal["auto"]


class AnyChoice(_Choice):
    """At least one call, and nothing else."""

    type: Literal["any"]


class NamedChoice(_Choice):
    """One call of a tool."""

    type: Literal["tool"]
    name: str


class NoChoice(Given):
    """No call."""

    type: Literal["none"]


AnthropicToolChoice: TypeAlias = Annotated[
    AutoChoice | AnyChoice | NamedChoice | NoChoice, OneOf("type")
]


def tools_of(tools: list[ClientTool]) -> list[FunctionTool]:
    """Return the tools as OpenAI's API has them."""
    return [
        _AsFunction(
            type="function",
            name=tool.name,
            description=tool.description,
            parameters=tool.input_schema,
            strict=tool.strict,
        )
        for tool in tools
    ]


def chosen_of(choice: AnthropicToolChoice | None) -> Chosen:
    """Return which tools a request chooses."""
    match choice:
        case AnyChoice():
            return Chosen("required")
        case NoChoice():
            return Chosen("none")
        case NamedChoice(name=name):
            return Chosen(named=Reference("function", name))
    return Chosen("auto")


def is_parallel(choice: AnthropicToolChoice | None) -> bool:
    """Whether an answer may have several calls."""
    return not (isinstance(choice, _Choice) and choice.disable_parallel_tool_use)
