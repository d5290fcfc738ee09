"""The items in the output of a response: thoughts, messages, function calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from uuid import uuid4

from guided_service.call_reader import call_id
from guided_service.http.errors import JsonObject

__all__ = ["TEXT_EVENTS", "Item", "Kind", "summary_part"]

Kind: TypeAlias = Literal["reasoning", "message", "function_call"]

_IDS: Final[Mapping[Kind, str]] = {"reasoning": "rs_", "message": "msg_", "function_call": "fc_"}

TEXT_EVENTS: Final[Mapping[Kind, str]] = {
    "reasoning": "response.reasoning_text",
    "message": "response.output_text",
    "function_call": "response.function_call_arguments",
}
"""The names of the events of an item's text, before ``.delta`` and ``.done``."""


@dataclass(slots=True)
class Item:
    """An item of the output, as it grows."""

    kind: Kind
    name: str = ""
    """The name of the function that is called."""
    is_summarized: bool = False
    """Whether thoughts also serve as their summary."""
    item_id: str = field(init=False)
    call_id: str = field(default_factory=call_id)
    pieces: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.item_id = _IDS[self.kind] + uuid4().hex

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    def part(self, text: str, logprobs: list[JsonObject]) -> JsonObject:
        """Return the only part of a message or of thoughts, with this much of its text."""
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def begun(self) -> JsonObject:
        """Return the item before any text of it."""
        return self._shown("in_progress", [], [], "")

    def ended(self, status: str, logprobs: list[JsonObject]) -> JsonObject:
        """Return the whole item."""
        summary = [summary_part(self.text)] if self.is_summarized else []
        return self._shown(status, [self.part(self.text, logprobs)], summary, self.text)

    def _shown(
        self, status: str, content: list[JsonObject], summary: list[JsonObject], text: str
    ) -> JsonObject:
        said: JsonObject = {"id": self.item_id, "status": status, "type": self.kind}
        match self.kind:
            case "reasoning":
                return said | {"summary": summary, "content": content}
            case "message":
                return said | {"role": "assistant", "content": content}
            case "function_call":
                return said | {"call_id": self.call_id, "name": self.name, "arguments": text}


def summary_part(text: str) -> JsonObject:
    """Return the only part of a summary."""
    return {"type": "summary_text", "text": text}
