"""Custom tools: their input is any text, or a text of a grammar, instead of JSON."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from guided import spec
from guided.spec import Lark, Regex
from guided.spec.tools import INPUT
from guided_service.http.constraints import TextFormat
from guided_service.http.fields import Given
from guided_service.http.unions import OneOf

__all__ = ["ChatCustom", "ResponseCustom", "ToolName"]

ToolName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]

_ANY_TEXT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {INPUT: {"type": "string"}},
    "required": [INPUT],
    "additionalProperties": False,
}
"""The schema of the arguments of a tool whose input is any text."""
_TEXT: Final = TextFormat(type="text")


class Grammar(Given):
    """A grammar of inputs."""

    syntax: Literal["lark", "regex"]
    definition: str

    def constraint(self) -> Lark | Regex:
        """Return the grammar as the engine knows it."""
        return (Lark if self.syntax == "lark" else Regex)(self.definition)


class GrammarFormat(Given):
    """Inputs of a grammar, as in chats."""

    type: Literal["grammar"]
    grammar: Grammar


class FlatGrammarFormat(Grammar):
    """Inputs of a grammar, as in requests of responses."""

    type: Literal["grammar"]


class ChatCustom(Given):
    """A custom tool of a chat."""

    definition_path: ClassVar[str] = "format.grammar.definition"

    name: ToolName
    description: str | None = None
    format: Annotated[TextFormat | GrammarFormat, OneOf("type")] = _TEXT

    def tool(self) -> spec.Tool:
        """Return the tool as the engine knows it."""
        grammar = self.format.grammar if isinstance(self.format, GrammarFormat) else None
        return _tool(self.name, self.description, grammar)


class ResponseCustom(Given):
    """A custom tool of a response."""

    definition_path: ClassVar[str] = "format.definition"

    name: ToolName
    description: str | None = None
    format: Annotated[TextFormat | FlatGrammarFormat, OneOf("type")] = _TEXT

    def tool(self) -> spec.Tool:
        """Return the tool as the engine knows it."""
        grammar = self.format if isinstance(self.format, FlatGrammarFormat) else None
        return _tool(self.name, self.description, grammar)


def _tool(name: str, description: str | None, grammar: Grammar | None) -> spec.Tool:
    if grammar is None:
        return spec.Tool(name, description or "", _ANY_TEXT)
    return spec.Tool(name, description or "", input=grammar.constraint())
