"""Anthropic's package: messages, streams, tools, structured outputs, counting, errors, asyncio."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Literal

import anthropic
from pydantic import BaseModel, Field


class Person(BaseModel):
    """Somebody."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)
    kind: Literal["friend", "stranger"]


TOOL: Any = {
    "name": "stop",
    "description": "Stop talking.",
    "input_schema": {
        "type": "object",
        "properties": {"why": {"enum": ["late", "bored"]}},
        "required": ["why"],
    },
}
ASK: Any = [{"role": "user", "content": "Who is it?"}]


def answers(client: anthropic.Anthropic, asked: dict[str, Any]) -> None:
    said = client.messages.create(**asked, max_tokens=8)
    text = said.content[0]
    print("message", said.type, said.role, text.type == "text", said.usage.input_tokens > 0)
    with client.messages.stream(**asked, max_tokens=8) as stream:
        pieces = [*stream.text_stream]
        final = stream.get_final_message()
    print("stream", len(pieces) > 0, final.content[0].text == "".join(pieces) == text.text)
    print("stream usage", final.usage.output_tokens == said.usage.output_tokens)
    raw = [event.type for event in client.messages.create(**asked, max_tokens=8, stream=True)]
    print("events", raw[0] == "message_start", raw[-1] == "message_stop")


def structures(client: anthropic.Anthropic, asked: dict[str, Any]) -> None:
    schema = {"type": "json_schema", "schema": Person.model_json_schema()}
    said = client.messages.create(**asked, max_tokens=200, output_config={"format": schema})
    print("schema", Person.model_validate_json(said.content[0].text).name != "")
    # ``parse`` sends no bounds, but text about them, so the name may be longer than it may be.
    kind = Literal["friend", "stranger"]
    parsed = client.messages.parse(**asked, max_tokens=200, output_format=kind)
    print("parse", parsed.parsed_output in ("friend", "stranger"))


def tools(client: anthropic.Anthropic, asked: dict[str, Any]) -> None:
    choice: Any = {"type": "any", "disable_parallel_tool_use": True}
    options = {**asked, "max_tokens": 200, "tools": [TOOL], "tool_choice": choice}
    said = client.messages.create(**options)
    (call,) = said.content
    print("tool", said.stop_reason == "tool_use", call.name == "stop", call.input["why"])
    with client.messages.stream(**options) as stream:
        grown = [event.partial_json for event in stream if event.type == "input_json"]
        (streamed,) = stream.get_final_message().content
    print("tool stream", "".join(grown) != "", streamed.input == call.input)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "Stopped."}
    turns = [
        *asked["messages"],
        {"role": "assistant", "content": said.content},
        {"role": "user", "content": [result]},
    ]
    after = client.messages.create(
        **{**asked, "messages": turns}, tools=[TOOL], tool_choice={"type": "none"}, max_tokens=8
    )
    print("after the tool", after.stop_reason in ("end_turn", "max_tokens"))


def others(client: anthropic.Anthropic, asked: dict[str, Any]) -> None:
    prompt = {"model": asked["model"], "messages": ASK}
    counted = client.messages.count_tokens(**prompt, system="Be kind.", tools=[TOOL])
    print("count", counted.input_tokens > client.messages.count_tokens(**prompt).input_tokens > 0)
    print("models", [each.id for each in client.models.list()] == [asked["model"]])
    try:
        client.messages.create(**{**asked, "model": "claude"}, max_tokens=8)
    except anthropic.NotFoundError as error:
        print("refused", error.type == "not_found_error", error.request_id is not None)


async def concurrently(client: anthropic.AsyncAnthropic, asked: dict[str, Any]) -> None:
    async with client.messages.stream(**asked, max_tokens=8) as stream:
        final = await stream.get_final_message()
    said = await client.messages.create(**asked, max_tokens=8)
    print("asyncio", final.content[0].text == said.content[0].text)


def main(url: str, model: str) -> None:
    base = {"base_url": url.removesuffix("/v1"), "api_key": "none", "max_retries": 0}
    asked = {"model": model, "messages": ASK, "extra_body": {"seed": 1}}
    with anthropic.Anthropic(**base) as client:
        for test in (answers, structures, tools, others):
            test(client, asked)
    asyncio.run(concurrently(anthropic.AsyncAnthropic(**base), asked))


if __name__ == "__main__":
    main(*sys.argv[1:])
