"""Flags of commands about tools that an answer may call, as Qwen and Hermes write calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from guided.cli.schema_file import read_schema_file
from guided.spec import JsonOptions, JsonSchema
from guided.spec.tagged import Calls, Tag, Tagged

__all__ = ["SingleCallFlag", "ToolChoiceFlag", "ToolsFlag", "read_tool_flags"]

_TRIGGER = "<tool_call>"

ToolsFlag: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="File with the tools that the answer may call, as OpenAI's API takes them: a JSON list"
        " of objects with name and parameters, each by itself or under function.",
        exists=True,
        dir_okay=False,
    ),
]
ToolChoiceFlag: TypeAlias = Annotated[
    Calls, typer.Option(help="Whether the answer calls tools: as it likes, at least once, never.")
]
SingleCallFlag: TypeAlias = Annotated[
    bool, typer.Option("--single-call", help="Let the answer hold at most one call.")
]


def read_tool_flags(
    tools: Path | None, choice: Calls, options: JsonOptions, *, single: bool
) -> Tagged | None:
    """Free text with calls of the tools, if there are any; arguments are written by ``options``."""
    if tools is None:
        if single or choice is not Calls.AUTO:
            raise typer.BadParameter("--tool-choice and --single-call go with --tools only")
        return None
    try:
        listed = json.loads(read_schema_file(tools))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{tools} is not JSON that can be read: {error}") from error
    if not isinstance(listed, list) or not listed:
        raise typer.BadParameter(f"{tools} is no list of one tool or more")
    tags = [_tag(tools, number, tool, options) for number, tool in enumerate(listed, start=1)]
    return Tagged(tags, _TRIGGER, choice, parallel=not single)


def _tag(file: Path, number: int, tool: Any, options: JsonOptions) -> Tag:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise typer.BadParameter(f"tool {number} of {file} has no name")
    # What takes nothing may leave its parameters out, or empty.
    parameters = function.get("parameters") or {"type": "object", "additionalProperties": False}
    return Tag(
        f'{_TRIGGER}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": ',
        JsonSchema(json.dumps(parameters), options),
        "}\n</tool_call>",
    )
