"""LangChain by the Responses API: structured output, tools whose calls go back, and a stream."""

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
    chat = ChatOpenAI(
        base_url=url,
        model=model,
        api_key=SecretStr("none"),
        max_retries=0,
        use_responses_api=True,
        store=False,
        include=["reasoning.encrypted_content"],
        output_version="responses/v1",
    )
    for method in ("json_schema", "function_calling"):
        person = chat.with_structured_output(Person, method=method).invoke("Who is it?")
        assert isinstance(person, Person)
        print(method, person.model_dump_json())
    asked = HumanMessage([{"type": "text", "text": "Who is it?"}])
    calling = chat.bind_tools([Stop], tool_choice="any", parallel_tool_calls=False)
    streamed = None
    for piece in calling.stream([asked]):
        streamed = piece if streamed is None else streamed + piece
    assert streamed is not None
    for called in (calling.invoke([asked]), streamed):
        (call,) = called.tool_calls
        print("tools", call["name"], Stop.model_validate(call["args"]).model_dump_json())
        told = ToolMessage("done", tool_call_id=call["id"])
        after = chat.bind(max_tokens=8).invoke([asked, called, told])
        print("after", isinstance(after.text, str))
        again = chat.bind(max_tokens=8).invoke([asked, called, told, after, asked])
        print("again", isinstance(again.text, str))


if __name__ == "__main__":
    main(*sys.argv[1:])
