"""The formats of tool calls that chat templates of models were trained with.

::

    HERMES   <tool_call>⏎{"name": "weather", "arguments": {"city":"Oslo"}}⏎</tool_call>
    LLAMA    {"name": "weather", "parameters": {"city":"Oslo"}}
    MISTRAL  [TOOL_CALLS]weather[ARGS]{"city":"Oslo"}
    HARMONY   to=functions.weather<|channel|>commentary json<|message|>{"city":"Oslo"}
    QWEN_XML  <tool_call>⏎<function=weather>⏎<parameter=city>⏎Oslo⏎</parameter>⏎</function>⏎…
    GEMMA     <|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|>
    GLM       <tool_call>weather⏎<arg_key>city</arg_key>⏎<arg_value>Oslo</arg_value>⏎</tool_call>

If a format has special tokens, its texts have their names between two marks (``mark``), and so does
the text of an answer until its calls are read: text that merely spells such a name is not marked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from guided.spec.tool_literals import write_literals
from guided.spec.tool_members import MemberFormat, write_members

__all__ = [
    "FORMATS",
    "FUNCTION_GEMMA",
    "GEMMA",
    "GLM",
    "HARMONY",
    "HERMES",
    "LLAMA",
    "MARK",
    "MISTRAL",
    "QWEN_XML",
    "ToolFormat",
    "mark",
    "strip_marks",
]

MARK: Final = "\x01"
"""Stands before and after the name of a special token. JSON has no such character, and text outside
calls must not contain it in a format with special tokens."""


def mark(name: str) -> str:
    """Return the name of a special token between marks, as in the texts of a format."""
    return f"{MARK}{name}{MARK}"


def strip_marks(text: str) -> str:
    """Return a text without the marks around names of special tokens."""
    return text.replace(MARK, "")


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """The texts around the name and the arguments of a call.

    Arguments are JSON unless ``members`` or ``quote`` is set.
    """

    name: str
    trigger: str
    """The beginning of every call, which text outside calls never contains."""
    before_name: str
    before_arguments: str
    end: str
    separator: str | None
    """The text between two calls; ``None`` if a call is a whole answer, with nothing before or
    after it."""
    is_quoted: bool = True
    """Whether the name is a string of JSON."""
    before_content: str = ""
    """The beginning of an answer without calls."""
    members: MemberFormat | None = None
    """If arguments are written one by one in tags, the texts around each."""
    quote: str = ""
    """If arguments have bare names, and texts between special tokens, that token with its marks."""

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The names of the special tokens in the format, each once."""
        around = (self.before_name, self.before_arguments, self.end)
        texts = (*around, self.quote, self.before_content)
        return tuple(dict.fromkeys(name for text in texts for name in text.split(MARK)[1::2]))

    @property
    def opening(self) -> str:
        """The marked special token after which any answer begins; empty if the format has none."""
        names = self.before_content.split(MARK)[1::2]
        return mark(names[-1]) if names else ""

    def header(self, name: str) -> str:
        """Return the text before the arguments of a call."""
        written = json.dumps(name) if self.is_quoted else name
        return f"{self.before_name}{written}{self.before_arguments}"

    def call(self, name: str, arguments: str) -> str:
        """Return a whole call; ``arguments`` are JSON."""
        if self.members is not None:
            arguments = "".join(write_members(arguments, self.members))
        elif self.quote:
            arguments = write_literals(arguments, self.quote)
        return f"{self.header(name)}{arguments}{self.end}"


HERMES: Final = ToolFormat(
    name="hermes",
    trigger="<tool_call>",
    before_name='<tool_call>\n{"name": ',
    before_arguments=', "arguments": ',
    end="}\n</tool_call>",
    separator="\n",
)
"""Of Hermes, Qwen 2.5, Qwen 3 and SmolLM 3; taught in prompts to models without tools."""

LLAMA: Final = ToolFormat(
    name="llama",
    # Documents are compact, so the blank distinguishes a call from a document.
    trigger='{"name": "',
    before_name='{"name": ',
    before_arguments=', "parameters": ',
    end="}",
    separator=None,
)
"""Of Llama 3.1, 3.2 and 3.3, where the message is a call."""

MISTRAL: Final = ToolFormat(
    name="mistral",
    trigger=mark("[TOOL_CALLS]"),
    before_name=mark("[TOOL_CALLS]"),
    before_arguments=mark("[ARGS]"),
    end="",
    separator="",
    is_quoted=False,
)
"""Of Mistral's models since version 11 of their tokenizer; a call ends where another begins."""

HARMONY: Final = ToolFormat(
    name="harmony",
    trigger=" to=functions.",
    before_name=" to=functions.",
    before_arguments=f"{mark('<|channel|>')}commentary json{mark('<|message|>')}",
    end="",
    separator=None,
    is_quoted=False,
    before_content=f"{mark('<|channel|>')}final{mark('<|message|>')}",
)
"""Of gpt-oss, where the message is a call."""

QWEN_XML: Final = ToolFormat(
    name="qwen_xml",
    trigger="<tool_call>",
    before_name="<tool_call>\n<function=",
    before_arguments=">\n",
    end="</function>\n</tool_call>",
    separator="\n",
    is_quoted=False,
    members=MemberFormat("<parameter=", ">\n", "\n</parameter>\n"),
)
"""Of Qwen3-Coder, and of Qwen since 3.5."""

GLM: Final = ToolFormat(
    name="glm",
    trigger="<tool_call>",
    before_name="<tool_call>",
    before_arguments="\n",
    end="</tool_call>",
    separator="\n",
    is_quoted=False,
    members=MemberFormat("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"),
)
"""Of GLM 4.5 and later."""


def _gemma_format(name: str, begin: str, end: str, quote: str) -> ToolFormat:
    """Return a format like Gemma's, with bare names, from its special tokens."""
    return ToolFormat(
        name=name,
        trigger=mark(begin),
        before_name=f"{mark(begin)}call:",
        before_arguments="{",
        end=f"}}{mark(end)}",
        separator="",
        is_quoted=False,
        quote=mark(quote),
    )


GEMMA: Final = _gemma_format("gemma", "<|tool_call>", "<tool_call|>", '<|"|>')
"""Of Gemma 4."""

FUNCTION_GEMMA: Final = _gemma_format(
    "function_gemma", "<start_function_call>", "<end_function_call>", "<escape>"
)
"""Of FunctionGemma, which is derived from Gemma 3."""

FORMATS: Final[Mapping[str, ToolFormat]] = {
    each.name: each
    for each in (HERMES, LLAMA, MISTRAL, HARMONY, QWEN_XML, GEMMA, FUNCTION_GEMMA, GLM)
}
"""All formats by name."""
