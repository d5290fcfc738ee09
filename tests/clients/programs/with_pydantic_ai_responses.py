"""pydantic-ai by the Responses API: output by a tool and by JSON schema, and calls that go back."""

from __future__ import annotations

import asyncio
import sys
from typing import Literal

from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


class Person(BaseModel):
    """Somebody."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)
    kind: Literal["friend", "stranger"]


async def main(url: str, model: str) -> None:
    provider = OpenAIProvider(base_url=url, api_key="none")
    chat = OpenAIResponsesModel(model, provider=provider)
    for name, output in (("tool", Person), ("native", NativeOutput(Person))):
        agent: Agent[None, Person] = Agent(
            chat, output_type=output, model_settings={"parallel_tool_calls": False}
        )
        result = await agent.run("Who is it?")
        assert isinstance(result.output, Person)
        print(name, result.output.model_dump_json())
        again = await agent.run("And who is it now?", message_history=result.all_messages())
        assert isinstance(again.output, Person)
        async with agent.run_stream("Who is it?") as stream:
            assert isinstance(await stream.get_output(), Person)
            history = stream.all_messages()
        after = await agent.run("And who is it now?", message_history=history)
        assert isinstance(after.output, Person)
        print(name, "stream")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
