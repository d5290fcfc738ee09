"""Let a model call tools and answer from their results: ``python -m examples.tools [ADDRESS]``.

A server must be running at the address, e.g. ``guided serve``. Calls are written in the format its
model was trained with, and held to the given tools.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

import guided

DOLLARS = {"EUR": 1.1, "USD": 1.0, "JPY": 0.007}


def weather(city: Annotated[str, Field(max_length=40)]) -> str:
    """Tell how warm it is in a city."""
    return f"{len(city)} degrees in {city}"  # your own look-up


def convert(amount: float, to: Literal["EUR", "USD", "JPY"]) -> str:
    """Convert dollars to a currency."""
    return f"{amount / DOLLARS[to]:.2f} {to}"


def result_of(call: guided.ToolCall) -> guided.Message:
    """Call the function with its arguments, which fit its types."""
    result = call.value()
    print(f"{call.name} {call.arguments}: {result}")
    return guided.Message("tool", result, tool_call_id=call.id)


def main(address: str) -> None:
    question = "How warm is it in Oslo, and how many euros are 20 dollars?"
    asked = [guided.Message("user", question)]
    tools: list[Callable[..., str]] = [weather, convert]
    with guided.Client(address) as client:
        try:
            # A call that the budget had to close, e.g. {"city":""}, is valid but should not be
            # made.
            answer = client.generate(
                asked, tools=tools, tool_choice="required", max_tokens=200, on_incomplete="error"
            )
        except guided.IncompleteAnswerError as error:
            sys.exit(f"{error}: {error.text}")
        results = [result_of(call) for call in answer.tool_calls]
        answer = client.generate(
            [*asked, answer.message, *results], tools=tools, tool_choice="none", max_tokens=200
        )
    print(answer.content)


if __name__ == "__main__":
    main(*(sys.argv[1:2] or ["localhost:50051"]))
