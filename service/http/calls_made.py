"""Keeps the function calls in a conversation, to check the answers to them."""

from __future__ import annotations

from collections.abc import Iterable

from guided.errors import RequestError
from guided.spec import ToolCall

__all__ = ["CallsMade"]


class CallsMade:
    """The calls made so far in a conversation."""

    def __init__(self, id_field: str) -> None:
        """``id_field`` is the field in which an answer says which call it answers."""
        self._id_field = id_field
        self._names: dict[str, str] = {}
        """Names of functions by the ids of their calls."""

    def add(self, calls: Iterable[ToolCall]) -> None:
        """Add calls."""
        self._names.update((call.id, call.name) for call in calls)

    def check_answer(self, call_id: str, name: str | None, place: str) -> None:
        """Raise RequestError for an answer to an unknown call, or to a call of another function."""
        called = self._names.get(call_id)
        if called is None:
            raise RequestError(
                f"{place} answers the call {call_id[:80]!r}, which no earlier message made",
                field=f"{place}.{self._id_field}",
            )
        if name and name != called:
            raise RequestError(
                f"{place}.name is {name[:80]!r}, but the call that it answers is of {called!r}",
                field=f"{place}.name",
                hint="leave it out",
            )
