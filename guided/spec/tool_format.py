"""How models write calls of tools: the formats that their chat templates were trained with.

::

    HERMES   <tool_call>⏎{"name": "weather", "arguments": {"city":"Oslo"}}⏎</tool_call>
    LLAMA    {"name": "weather", "parameters": {"city":"Oslo"}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["FORMATS", "HERMES", "LLAMA", "ToolFormat"]


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """What stands around the name and the arguments of a call, which are JSON."""

    name: str
    trigger: str
    """What every call begins with, and text beside calls never holds."""
    before_name: str
    before_arguments: str
    end: str
    separator: str | None
    """What stands between two calls; ``None`` where a call is a whole answer: nothing stands
    before or behind it."""

    def header(self, name: str) -> str:
        """What stands before the arguments of a call."""
        return f"{self.before_name}{json.dumps(name)}{self.before_arguments}"

    def call(self, name: str, arguments: str) -> str:
        """A whole call."""
        return f"{self.header(name)}{arguments}{self.end}"


HERMES: Final = ToolFormat(
    name="hermes",
    trigger="<tool_call>",
    before_name='<tool_call>\n{"name": ',
    before_arguments=', "arguments": ',
    end="}\n</tool_call>",
    separator="\n",
)
"""Of Hermes, Qwen 2.5, Qwen 3 and SmolLM 3; models that know no tools are told to write it."""

LLAMA: Final = ToolFormat(
    name="llama",
    # Documents are compact, so the blank tells a call from one of them.
    trigger='{"name": "',
    before_name='{"name": ',
    before_arguments=', "parameters": ',
    end="}",
    separator=None,
)
"""Of Llama 3.1, 3.2 and 3.3, where the message is a call."""

FORMATS: Final[Mapping[str, ToolFormat]] = {each.name: each for each in (HERMES, LLAMA)}
"""By their names."""
