"""Open Responses: what its compliance suite asks for, read by types generated from its schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
from openresponses_types import types
from pydantic import BaseModel

WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a place now",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string", "maxLength": 12}},
        "required": ["place"],
    },
}
USER = {"type": "message", "role": "user", "content": "Greet me in three words."}
SUBJECTS: dict[str, dict[str, Any]] = {
    "text": {"input": [USER]},
    "text, streamed": {"input": [USER], "stream": True},
    "a system message": {
        "input": [{"type": "message", "role": "system", "content": "Talk like a sailor."}, USER]
    },
    "a call": {"input": [USER], "tools": [WEATHER], "tool_choice": "required"},
    "a call, streamed": {
        "input": [USER],
        "tools": [WEATHER],
        "tool_choice": "required",
        "stream": True,
    },
    "several turns": {
        "input": [
            USER,
            {"type": "message", "role": "assistant", "content": "Good day, Ada!"},
            {"type": "message", "role": "user", "content": "What am I called?"},
        ]
    },
}
"""By what the suite tries, bodies that ask for the same in words of our own."""


def event_types() -> dict[str, type[BaseModel]]:
    """The classes of events by the type that they have."""
    classes = [getattr(types, name) for name in dir(types) if name.endswith("StreamingEvent")]
    return {next(iter(one.model_fields["type"].annotation)).value: one for one in classes}


def events_in(text: str) -> Iterator[dict[str, Any]]:
    for block in text.strip().split("\n\n"):
        named, _, data = block.partition("\ndata: ")
        event: dict[str, Any] = json.loads(data)
        assert named == f"event: {event['type']}"
        yield event


def main(url: str, model: str) -> None:
    known = event_types()
    for subject, fields in SUBJECTS.items():
        body = {"model": model, "max_output_tokens": 60, "temperature": 0, **fields}
        answer = httpx2.post(f"{url}/responses", json=body, timeout=60)
        answer.raise_for_status()
        if fields.get("stream"):
            events = [*events_in(answer.text)]
            for event in events:
                known[event["type"]].model_validate(event)
            said = events[-1]["response"]
        else:
            said = answer.json()
        response = types.ResponseResource.model_validate(said)
        kinds = [item["type"] for item in said["output"]]
        assert kinds == (["function_call"] if "tools" in fields else ["message"]), kinds
        print(subject, response.status, *kinds)


if __name__ == "__main__":
    main(*sys.argv[1:])
