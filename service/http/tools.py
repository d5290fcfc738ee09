"""Tools: how the model is told of them, and the grammar of its calls.

Calls are written as Qwen and Hermes write them, whatever the model's own template says::

    <tool_call>
    {"name": "weather", "arguments": {"city":"Oslo"}}
    </tool_call>
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field

from guided.errors import RequestError
from guided.spec import JsonSchema, Structure
from guided.spec.composition import AnyOf, Repeat, Sequence
from guided.spec.tagged import Calls, FreeText, Tag, Tagged
from guided_service.http.constraints import Wanted, schema_of
from guided_service.http.fields import Given

__all__ = [
    "ARGUMENTS",
    "BEGIN",
    "END",
    "MOST_TOOLS",
    "TRIGGER",
    "Function",
    "Named",
    "NamedChoice",
    "Tool",
    "ToolChoice",
    "chosen",
    "header_of",
    "told",
    "with_calls",
]

TRIGGER: Final = "<tool_call>"
"""What every call begins with, and free text beside calls never holds."""
BEGIN: Final = f'{TRIGGER}\n{{"name": '
ARGUMENTS: Final = ', "arguments": '
END: Final = "}\n</tool_call>"

MOST_TOOLS: Final = 128
"""Tools of one request, as many as OpenAI takes."""

_NOTHING: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}
"""The arguments of a tool that takes none."""


class Function(Given):
    """A function that the model may call."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    """``False`` leaves objects open, as with a schema."""

    def arguments(self) -> JsonSchema:
        """The schema of its arguments, which are an object."""
        schema = {"type": "object"} | (self.parameters or _NOTHING)
        if schema["type"] != "object":
            raise RequestError(
                f"the parameters of the tool {self.name} are of type {schema['type']!r}, no object",
                field="tools",
            )
        return schema_of(schema, strict=self.strict)


class Tool(Given):
    """A tool; functions are the only kind."""

    type: Literal["function"]
    function: Function


class Named(Given):
    """A function by its name."""

    name: str


class NamedChoice(Given):
    """The one function that has to be called."""

    type: Literal["function"]
    function: Named


ToolChoice: TypeAlias = Literal["none", "auto", "required"] | NamedChoice


def chosen(tools: list[Tool], choice: ToolChoice) -> list[Function]:
    """The functions that may be called; raises RequestError for a choice that there is not."""
    functions = [tool.function for tool in tools]
    names = [function.name for function in functions]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise RequestError(f"two tools have the name {min(repeated)!r}", field="tools")
    if choice == "none":
        return []
    if isinstance(choice, NamedChoice):
        functions = [each for each in functions if each.name == choice.function.name]
        if not functions:
            raise RequestError(
                f"tool_choice names {choice.function.name!r}, which is none of the tools",
                field="tool_choice",
            )
    return functions


def with_calls(
    functions: list[Function], choice: ToolChoice, *, is_parallel: bool, beside: Wanted | None
) -> Structure | None:
    """The constraint of an answer that may call functions.

    ``beside`` is what the answer is where it calls none; without it, any text::

        auto              text with calls in it, or none; where ``beside`` is set, it or calls
        required          calls alone
        one by its name   that call alone
        none              text without any; where ``beside`` is set, it
    """
    other = None if beside is None else beside.structure
    if not functions:
        return FreeText(TRIGGER) if other is None else other
    if beside is not None and not beside.is_json:
        raise RequestError(
            f"{beside.field} is no JSON, and so not told from calls of tools",
            field=beside.field,
            hint="leave it or the tools out, or set tool_choice to none",
        )
    tags = [Tag(header_of(each.name), each.arguments(), END) for each in functions]
    if choice == "auto" and other is None:
        return Tagged(tags, TRIGGER, Calls.AUTO, is_parallel)
    calls = _calls(tags, is_parallel=is_parallel and not isinstance(choice, NamedChoice))
    return AnyOf([other, calls]) if choice == "auto" and other is not None else calls


def _calls(tags: list[Tag], *, is_parallel: bool) -> Structure:
    call = AnyOf([Sequence([tag.begin, tag.body, tag.end]) for tag in tags])
    return Sequence([call, Repeat(Sequence(["\n", call]))]) if is_parallel else call


def header_of(name: str) -> str:
    """What stands before the arguments of a call."""
    return f"{BEGIN}{json.dumps(name)}{ARGUMENTS}"


def told(functions: Iterable[Function]) -> str:
    """What the model is told of the functions that it may call."""
    listed = [
        json.dumps(
            {
                "type": "function",
                "function": {
                    "name": each.name,
                    "description": each.description or "",
                    "parameters": each.parameters or _NOTHING,
                },
            },
            ensure_ascii=False,
        )
        for each in functions
    ]
    lines = "\n".join(listed)
    example = header_of("NAME") + "{…}" + END
    return (
        "# Tools\n\nThese functions can be called; a call gives back what the function says.\n"
        f"<tools>\n{lines}\n</tools>\n\nA call of a function is written so:\n{example}"
    )
