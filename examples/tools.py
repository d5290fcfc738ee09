"""Let a model call tools and answer from their results: ``python -m examples.tools [ADDRESS]``.

A server must be running at the address, e.g. ``guided serve``. Calls are written in the format its
model was trained with, and held to the given tools.
"""

from __future__ import annotations

import sys
from typing import Literal

from pydantic import BaseModel, Field

import guided

DOLLARS = {"EUR": 1.1, "USD": 1.0, "JPY": 0.007}


class Weather(BaseModel):
    """Tell how warm it is in a city."""

    city: str = Field(max_length=40)

    def result(self) -> str:
        return f"{len(self.city)} degrees in {self.city}"  # your own look-up


class Convert(BaseModel):
    """Convert dollars to a currency."""

    amount: float
    to: Literal["EUR", "USD", "JPY"]

    def result(self) -> str:
        return f"{self.amount / DOLLARS[self.to]:.2f} {self.to}"


TOOLS = {tool.__name__: tool for tool in (Weather, Convert)}


def result_of(call: guided.ToolCall) -> guided.Message:
    """Run the called tool; its arguments fit its type."""
    tool = TOOLS[call.name].model_validate_json(call.arguments)
    print(f"{call.name} {call.arguments}: {tool.result()}")
    return guided.Message("tool", tool.result(), tool_call_id=call.id)


def main(address: str) -> None:
    question = "How warm is it in Oslo, and how many euros are 20 dollars?"
    asked = [guided.Message("user", question)]
    tools = [*TOOLS.values()]
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
