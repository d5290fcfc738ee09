"""The turns of a conversation."""

from __future__ import annotations

from dataclasses import dataclass

from guided.errors import RequestError
from guided.spec.tools import ToolCall, check_call, check_call_id

__all__ = ["Message"]

_ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; the server applies the model's chat template to all of them."""

    role: str
    """``system``, ``developer`` (the same), ``user``, ``assistant`` or ``tool``."""
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """For the assistant: its calls, in addition to its text."""
    tool_call_id: str = ""
    """For a tool: the id of the call that its content answers."""
    reasoning: str = ""
    """For the assistant: its thoughts before its text and calls. The chat template decides of which
    turns the model sees them; most write those after the last message of the user."""

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise RequestError(
                f"role {self.role!r} is none of {', '.join(map(repr, _ROLES))}",
                field="messages.role",
            )
        if self.tool_calls and self.role != "assistant":
            raise RequestError(
                f"a message of role {self.role!r} has tool_calls, which only the assistant makes",
                field="messages.tool_calls",
            )
        if not isinstance(self.tool_calls, tuple | list):
            raise RequestError(
                f"tool_calls is {self.tool_calls!r:.80}, no tuple of calls",
                field="messages.tool_calls",
            )
        for call in self.tool_calls:
            check_call(call)
        check_call_id(self.tool_call_id, "messages.tool_call_id")
        if bool(self.tool_call_id) != (self.role == "tool"):
            wrong = "needs" if self.role == "tool" else "has no"
            raise RequestError(
                f"a message of role {self.role!r} {wrong} tool_call_id",
                field="messages.tool_call_id",
            )
        if not isinstance(self.reasoning, str):
            raise RequestError(
                f"reasoning is {self.reasoning!r:.80}, no text", field="messages.reasoning"
            )
        if self.reasoning and self.role != "assistant":
            raise RequestError(
                f"a message of role {self.role!r} has reasoning, which only the assistant has",
                field="messages.reasoning",
            )
