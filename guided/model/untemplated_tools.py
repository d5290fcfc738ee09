"""Tools for models whose chat template has none: described in the words Hermes was trained on.

::

    tools                  →  system: …<tools>…</tools>…
    assistant, tool_calls  →  assistant: text of the calls
    tool, tool             →  user: <tool_response>…</tool_response> for each, one message
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from guided.spec import Message, Tool
from guided.spec.tool_format import HERMES

__all__ = ["describe_tool", "without_tools"]


def describe_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool as OpenAI's API and the templates of transformers write it."""
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    parameters = json.loads(tool.parameters) if tool.parameters else nothing
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters,
        },
    }


def without_tools(messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> tuple[Message, ...]:
    """Return the conversation in the roles that every template has."""
    told: list[Message] = []
    for is_answer, turns in groupby(messages, lambda turn: turn.role == "tool"):
        if is_answer:
            answers = (f"<tool_response>\n{turn.content}\n</tool_response>" for turn in turns)
            told.append(Message("user", "\n".join(answers)))
        else:
            told += [_write_turn(turn) for turn in turns]
    if not tools:
        return tuple(told)
    note = _describe_tools(tools)
    if told[0].role == "system":
        return (Message("system", f"{told[0].content}\n\n{note}"), *told[1:])
    return (Message("system", note), *told)


def _write_turn(turn: Message) -> Message:
    calls = [HERMES.call(call.name, call.arguments) for call in turn.tool_calls]
    said = [turn.content] if turn.content or not calls else []
    return Message("system" if turn.role == "developer" else turn.role, "\n".join([*said, *calls]))


def _describe_tools(tools: Iterable[Tool]) -> str:
    lines = "\n".join(json.dumps(describe_tool(tool), ensure_ascii=False) for tool in tools)
    example = HERMES.call("NAME", "{…}")
    return (
        "# Tools\n\nThese functions can be called; a call gives back what the function says.\n"
        f"<tools>\n{lines}\n</tools>\n\nA call of a function is written so:\n{example}"
    )
