"""Let a model call tools in the middle of its text: ``python -m examples.tools [ADDRESS]``.

The server of the address runs already, e.g. by ``guided serve``.
"""

from __future__ import annotations

import json
import re
import sys

import guided

TOOLS = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 40}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "convert": {
        "type": "object",
        "properties": {
            "amount": {"type": "number"},
            "to": {"enum": ["EUR", "USD", "JPY"]},
        },
        "required": ["amount", "to"],
        "additionalProperties": False,
    },
}
BEGIN, END = "<tool_call>\n", "\n</tool_call>"


def tagged(tools: dict[str, dict[str, object]]) -> guided.Tagged:
    """Text with at least one call of one of the tools, as Qwen and Hermes write them."""
    return guided.Tagged(
        [
            guided.Tag(
                f'{BEGIN}{{"name": "{name}", "arguments": ',
                guided.JsonSchema(json.dumps(schema)),
                "}" + END,
            )
            for name, schema in tools.items()
        ],
        triggers="<tool_call>",
        calls="required",
    )


def main(address: str) -> None:
    prompt = (
        "How warm is it in Oslo, and how many euros are 20 dollars? You have the tools "
        f"{json.dumps(TOOLS)}. Call each by {BEGIN}{{...}}{END}"
    )
    with guided.Client(address) as client:
        try:
            # A call that the budget had to close, {"city":""} say, is valid and none to make.
            answer = client.generate(
                prompt, grammar=tagged(TOOLS), max_tokens=200, on_incomplete="error"
            )
        except guided.IncompleteAnswerError as error:
            sys.exit(f"{error}: {error.text}")
    print(answer.text)
    for call in re.findall(f"{BEGIN}(.*?){END}", answer.text):
        print("call:", json.loads(call))


if __name__ == "__main__":
    main(*(sys.argv[1:2] or ["localhost:50051"]))
