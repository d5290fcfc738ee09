"""Tools in requests of ``POST /v1/responses``: the same as in chats, less nested."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from guided.spec.tools import MOST_TOOLS
from guided_service.http.fields import Given, Listed
from guided_service.http.tools import (
    AllowedChoice,
    AllowedMode,
    AllowedTools,
    Choice,
    Function,
    Named,
    NamedChoice,
    NamedTool,
    ToolChoice,
)
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = ["FunctionTool", "ResponseToolChoice", "choice_of"]


class FunctionTool(Function):
    """A function that the model may call."""

    type: Literal["function"]


class ChosenFunction(Given):
    """A function by its name: one that must be called, or one that may be."""

    type: Literal["function"]
    name: str


class ChosenTools(Given):
    """A choice among some of the tools."""

    type: Literal["allowed_tools"]
    mode: AllowedMode
    tools: Annotated[Listed[ChosenFunction], Field(min_length=1, max_length=MOST_TOOLS)]


ResponseToolChoice: TypeAlias = Annotated[
    Choice | Annotated[ChosenFunction | ChosenTools, OneOf("type")], OneOfKinds()
]


def choice_of(chosen: ResponseToolChoice | None) -> ToolChoice:
    """Return the choice of tools in the form used by chats."""
    match chosen:
        case ChosenFunction(name=name):
            return NamedChoice(type="function", function=Named(name=name))
        case ChosenTools(mode=mode, tools=tools):
            named = [NamedTool(type="function", function=Named(name=one.name)) for one in tools]
            allowed = AllowedTools(mode=mode, tools=named)
            return AllowedChoice(type="allowed_tools", allowed_tools=allowed)
        case None:
            return "auto"
        case str() as word:
            return word
