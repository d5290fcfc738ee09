"""LiteLLM: a schema, tools, and a stream."""

from __future__ import annotations

import json
import sys
from typing import Literal

import litellm
from pydantic import BaseModel, Field


class Person(BaseModel):
    """Somebody."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)
    kind: Literal["friend", "stranger"]


TOOL = {
    "type": "function",
    "function": {
        "name": "stop",
        "description": "Stop talking.",
        "parameters": {
            "type": "object",
            "properties": {"why": {"enum": ["late", "bored"]}},
            "required": ["why"],
        },
    },
}


def main(url: str, model: str) -> None:
    asked = {
        "model": f"openai/{model}",
        "api_base": url,
        "api_key": "none",
        "messages": [{"role": "user", "content": "Who is it?"}],
        "seed": 1,
    }
    answer = litellm.completion(response_format=Person, **asked)
    print("schema", Person.model_validate_json(answer.choices[0].message.content).name != "")
    called = litellm.completion(
        tools=[TOOL], tool_choice="required", parallel_tool_calls=False, **asked
    )
    (call,) = called.choices[0].message.tool_calls
    print("tool", call.function.name, json.loads(call.function.arguments)["why"])
    chunks = litellm.completion(stream=True, max_tokens=8, **asked)
    print("stream", len("".join(chunk.choices[0].delta.content or "" for chunk in chunks)) > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
