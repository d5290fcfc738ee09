"""LangChain: structured output by JSON schema and by a function, tools, and a stream."""

from __future__ import annotations

import sys
from typing import Literal

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field, SecretStr


class Person(BaseModel):
    """Somebody."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)
    kind: Literal["friend", "stranger"]


class Stop(BaseModel):
    """Stop talking."""

    why: Literal["late", "bored"]


def main(url: str, model: str) -> None:
    chat = ChatOpenAI(base_url=url, model=model, api_key=SecretStr("none"), seed=1, max_retries=0)
    for method in ("json_schema", "function_calling"):
        person = chat.with_structured_output(Person, method=method).invoke("Who is it?")
        assert isinstance(person, Person)
        print(method, person.model_dump_json())
    asked = HumanMessage("Who is it?")
    called = chat.bind_tools([Stop], tool_choice="any", parallel_tool_calls=False).invoke([asked])
    (call,) = called.tool_calls
    print("tools", call["name"], Stop.model_validate(call["args"]).model_dump_json())
    told = ToolMessage("done", tool_call_id=call["id"])
    after = chat.bind(max_tokens=8).invoke([asked, called, told])
    print("after", isinstance(after.content, str))
    pieces = [piece.content for piece in chat.bind(max_tokens=8).stream("Who is it?")]
    print("stream", len("".join(pieces)) > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
