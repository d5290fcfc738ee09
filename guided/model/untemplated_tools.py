"""Tools for models whose chat template has none: described in the words Hermes was trained on.

::

    tools                  →  system: …<tools>…</tools>…
    assistant, tool_calls  →  assistant: text of the calls
    tool, tool, user       →  user: <tool_response>…</tool_response> for each, and the user's text
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
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": json.loads(tool.schema),
        },
    }


def without_tools(messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> tuple[Message, ...]:
    """Return a conversation of text alone, in the roles ``system``, ``user`` and ``assistant``.

    ``tools`` are described in the first turn, a system message. What tools answer is told by the
    user, together with what the user says next, as templates may insist that user and assistant
    take turns. There is at least one message.
    """
    turns: list[Message] = []
    for is_answer, group in groupby(messages, lambda turn: turn.role == "tool"):
        if is_answer:
            answers = (f"<tool_response>\n{turn.content}\n</tool_response>" for turn in group)
            turns.append(Message("user", "\n".join(answers)))
            continue
        said = [_write_turn(turn) for turn in group]
        # Any group but the first follows one of answers.
        if turns and said[0].role == "user":
            turns[-1:], said = [_join(turns[-1], said[0])], said[1:]
        turns += said
    if not tools:
        return tuple(turns)
    note = Message("system", _describe_tools(tools))
    if turns[0].role == "system":
        return (_join(turns[0], note), *turns[1:])
    return (note, *turns)


def _join(turn: Message, following: Message) -> Message:
    """Return two turns of one role as one."""
    return Message(turn.role, f"{turn.content}\n\n{following.content}")


def _write_turn(turn: Message) -> Message:
    """Return a turn of any role but ``tool``, with its calls written into its text."""
    calls = [HERMES.call(call.name, call.arguments) for call in turn.tool_calls]
    said = [turn.content] if turn.content or not calls else []
    role = "system" if turn.role == "developer" else turn.role
    return Message(role, "\n".join([*said, *calls]), reasoning=turn.reasoning)


def _describe_tools(tools: Iterable[Tool]) -> str:
    """Return what the model is told of tools: a line of JSON for each, and how to call one."""
    lines = "\n".join(json.dumps(describe_tool(tool), ensure_ascii=False) for tool in tools)
    example = HERMES.call("NAME", "{…}")
    return (
        "# Tools\n\nThese functions can be called; a call gives back what the function says.\n"
        f"<tools>\n{lines}\n</tools>\n\nA call of a function is written so:\n{example}"
    )
