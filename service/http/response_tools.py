"""Tools in requests of ``POST /v1/responses``: the same as in chats, less nested."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from guided.spec.tools import MAX_TOOLS
from guided_service.http.fields import Given, Listed
from guided_service.http.tools import AllowedMode, Choice, Chosen, Function
from guided_service.http.unions import OneOf, OneOfKinds

__all__ = ["FunctionTool", "ResponseToolChoice", "chosen_of"]


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
    tools: Annotated[Listed[ChosenFunction], Field(min_length=1, max_length=MAX_TOOLS)]


ResponseToolChoice: TypeAlias = Annotated[
    Choice | Annotated[ChosenFunction | ChosenTools, OneOf("type")], OneOfKinds()
]


def chosen_of(choice: ResponseToolChoice | None) -> Chosen:
    """Return which tools a request chooses."""
    match choice:
        case ChosenFunction():
            return Chosen(named=choice.name)
        case ChosenTools(mode=mode, tools=tools):
            return Chosen(mode, allowed=tuple(tool.name for tool in tools))
    return Chosen(choice or "auto")
