"""instructor: a model by a named tool (its default), by JSON schema, by JSON, and streamed."""

from __future__ import annotations

import sys
from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field


class Person(BaseModel):
    """Somebody."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)
    kind: Literal["friend", "stranger"]


def main(url: str, model: str) -> None:
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(OpenAI(base_url=url, api_key="none"), mode=mode)
        asked = {
            "model": model,
            "messages": [{"role": "user", "content": "Who is it?"}],
            "max_retries": 0,
            "seed": 1,
        }
        person = client.chat.completions.create(response_model=Person, **asked)
        assert isinstance(person, Person)
        print(mode.name, person.model_dump_json())
        partial = [*client.chat.completions.create_partial(response_model=Person, **asked)]
        assert Person.model_validate(partial[-1].model_dump())
        print(mode.name, "partial", len(partial) > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
