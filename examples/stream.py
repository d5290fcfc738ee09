"""Print an answer while it grows, then its value: ``python -m examples.stream [ADDRESS]``.

A server must be running at the address, e.g. ``guided serve``.
"""

from __future__ import annotations

import sys

from pydantic import BaseModel, Field

from guided import Client


class Recipe(BaseModel):
    title: str = Field(max_length=60)
    minutes: int = Field(ge=5, le=180)
    ingredients: list[str] = Field(min_length=2, max_length=5)


def main(address: str) -> None:
    with (
        Client(address) as client,
        # If it is not complete in time, it is closed and still valid.
        client.stream("A quick recipe with lentils.", Recipe, deadline=20.0) as pieces,
    ):
        for text in pieces:
            print(text, end="", flush=True)
        print()
        answer = pieces.answer
    print(answer.value)
    print(f"{answer.finish_reason}, {answer.usage.model_calls} model calls")


if __name__ == "__main__":
    main(*(sys.argv[1:2] or ["localhost:50051"]))
