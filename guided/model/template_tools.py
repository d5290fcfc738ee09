"""Whether a chat template supports tools, and how calls are written in it.

A conversation with a call and its result is put through the template. If the template writes both,
and the call in one of our formats, it gets the tools. A template without tools gets them in words
(``untemplated_tools``), which any template can carry; one that writes calls in another way gets
none, because its model would write calls in that way, undetected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Final

from guided.errors import RequestError
from guided.spec import Message, Tool, ToolCall
from guided.spec.tool_format import FORMATS, ToolFormat, strip_marks

__all__ = [
    "PROBE",
    "PROBE_ARGUMENTS_IN_PYTHON",
    "PROBE_TOOL",
    "knows_tools",
    "render_with_tools",
    "template_format",
]

_PROPERTIES: Final = {"place": {"type": "string"}}
PROBE_TOOL: Final = Tool(
    "probe_of_tools",
    "Says nothing.",
    json.dumps({"type": "object", "properties": _PROPERTIES, "required": ["place"]}),
)
_ARGUMENTS: Final = '{"place": "nowhere"}'
_ANSWER: Final = "answer_of_the_probe"
PROBE: Final = (
    Message("user", "a"),
    Message("assistant", "", (ToolCall(PROBE_TOOL.name, _ARGUMENTS, "probe0000"),)),
    Message("tool", _ANSWER, tool_call_id="probe0000"),
)
"""A conversation with a call of ``PROBE_TOOL`` and its result."""
PROBE_ARGUMENTS_IN_PYTHON: Final = repr(json.loads(_ARGUMENTS))
"""The arguments of that call as Python writes the object."""

RenderMessages = Callable[[tuple[Message, ...], tuple[Tool, ...]], str]
"""Puts messages and tools through a template; raises RequestError if it refuses them."""


def render_with_tools(render: RenderMessages) -> str:
    """Return a call and its result as a template writes them; RequestError if it refuses."""
    return render(PROBE, (PROBE_TOOL,))


def knows_tools(render: RenderMessages) -> bool:
    """Whether a template writes tools, and the result of a call."""
    try:
        told = render(PROBE[:1], (PROBE_TOOL,))
        return PROBE_TOOL.name in told and _ANSWER in render_with_tools(render)
    except RequestError:
        return False


def template_format(render: RenderMessages, names: Collection[str]) -> ToolFormat | None:
    """Return the format in which a template writes calls; ``None`` if it is none that we know, or
    if the tokenizer lacks some of its special tokens among its ``names``.
    """
    if not knows_tools(render):
        return None
    text = render_with_tools(render)
    # The longest first: one format's text may contain another's.
    for form in sorted(FORMATS.values(), key=lambda form: -len(form.header(""))):
        is_written = strip_marks(form.call(PROBE_TOOL.name, _ARGUMENTS)) in text
        if is_written and {*form.special_tokens} <= {*names}:
            return form
    return None
