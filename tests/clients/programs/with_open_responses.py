"""Open Responses: the tests of its compliance suite, answers read by types made from its schema.

``with_open_responses.py URL MODEL`` sends the fields that the suite sends, in words of our own,
and checks what it checks: no field bounds or steers an answer, so it is up to the model whether one
ends or calls a tool. A line for each test says whether it passes; for tests that the suite does not
have it begins with "also". The program fails if a failure has any reason but the model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

import httpx2
from openresponses_types import types
from pydantic import BaseModel, ValidationError

Json: TypeAlias = dict[str, Any]
Check: TypeAlias = Callable[[Json, list[Json]], bool]
"""A check of a response, and of the events of its stream."""


class Passes(Enum):
    """Whether a test has to pass here."""

    ALWAYS = "always"
    BY_MODEL = "if the model answers so"
    NEVER = "never: the request is refused"


@dataclass(frozen=True)
class Test:
    name: str
    fields: Json
    checks: tuple[Check, ...]
    passes: Passes = Passes.BY_MODEL


def has_output(response: Json, _: list[Json]) -> bool:
    return bool(response["output"])


def is_completed(response: Json, _: list[Json]) -> bool:
    return bool(response["status"] == "completed")


def has_call(response: Json, _: list[Json]) -> bool:
    return any(item["type"] == "function_call" for item in response["output"])


def tells_call(_: Json, events: list[Json]) -> bool:
    """Whether events report a call's begin and end, and its arguments growing and complete."""
    seen = {(event["type"], event.get("item", {}).get("type")) for event in events}
    return seen >= {
        ("response.output_item.added", "function_call"),
        ("response.function_call_arguments.delta", None),
        ("response.function_call_arguments.done", None),
        ("response.output_item.done", "function_call"),
    }


def said(role: str, content: object) -> Json:
    return {"type": "message", "role": role, "content": content}


GREET: Final = said("user", "Greet me in three words.")
ASK: Final = said("user", "How is the weather in Lisbon?")
WEATHER: Final = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a place now",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string", "description": "A town and its country"}},
        "required": ["place"],
    },
}
PIXEL: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
LOOK: Final = [
    {"type": "input_text", "text": "Tell in a sentence what is to be seen here."},
    {"type": "input_image", "image_url": PIXEL},
]
CALLED: Final = {"tools": [WEATHER], "tool_choice": "required", "max_output_tokens": 60}
TURNS: Final = [
    said("user", "I am called Ada."),
    said("assistant", "Good day, Ada! What can I do for you?"),
    said("user", "What am I called?"),
]
TESTS: Final = (
    Test("basic-response", {"input": [GREET]}, (has_output, is_completed)),
    Test("streaming-response", {"input": [GREET], "stream": True}, (is_completed,)),
    Test(
        "system-prompt",
        {"input": [said("system", "Talk like a sailor."), GREET]},
        (has_output, is_completed),
    ),
    Test("tool-calling", {"input": [ASK], "tools": [WEATHER]}, (has_output, has_call)),
    Test(
        "tool-calling-streaming",
        {"input": [ASK], "tools": [WEATHER], "stream": True},
        (tells_call,),
    ),
    Test("image-input", {"input": [said("user", LOOK)]}, (has_output, is_completed), Passes.NEVER),
    Test("multi-turn", {"input": TURNS}, (has_output, is_completed)),
    Test("also: a required call", {"input": [ASK], **CALLED}, (has_call,), Passes.ALWAYS),
    Test(
        "also: a required call, streamed",
        {"input": [ASK], **CALLED, "stream": True},
        (has_call, tells_call),
        Passes.ALWAYS,
    ),
)


def event_types() -> dict[str, type[BaseModel]]:
    """The classes of events by their type."""
    classes = [getattr(types, name) for name in dir(types) if name.endswith("StreamingEvent")]
    return {next(iter(one.model_fields["type"].annotation)).value: one for one in classes}


def events_in(text: str) -> Iterator[Json]:
    for block in text.strip().split("\n\n"):
        named, _, data = block.partition("\ndata: ")
        event: Json = json.loads(data)
        assert named == f"event: {event['type']}"
        yield event


def fault_of(test: Test, answer: httpx2.Response) -> tuple[str, bool]:
    """Why a test fails, and whether the model may be the reason."""
    if answer.status_code != httpx2.codes.OK:
        return f"status {answer.status_code}: {answer.json()['error']['message']}", False
    events = [*events_in(answer.text)] if test.fields.get("stream") else []
    response = events[-1]["response"] if events else answer.json()
    try:
        known = event_types()
        for event in events:
            known[event["type"]].model_validate(event)
        types.ResponseResource.model_validate(response)
    except (KeyError, ValidationError) as error:
        return f"schema: {error}", False
    missed = [check.__name__ for check in test.checks if not check(response, events)]
    return (f"not {', '.join(missed)}; {response['status']}" if missed else ""), True


def main(url: str, model: str) -> None:
    wrong = []
    for test in TESTS:
        body = {"model": model, "stream": False, **test.fields}
        fault, is_of_model = fault_of(test, httpx2.post(f"{url}/responses", json=body, timeout=300))
        print(f"{test.name}: {f'failed, {fault}' if fault else 'passed'}", flush=True)
        match test.passes:
            case Passes.NEVER:
                is_expected = fault.startswith("status 400")
            case Passes.BY_MODEL:
                is_expected = is_of_model
            case Passes.ALWAYS:
                is_expected = not fault
        wrong += [] if is_expected else [test.name]
    if wrong:
        sys.exit(f"not as expected: {', '.join(wrong)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
