"""Whether a chat template knows tools, and how calls are written in it.

A conversation with a call in it and what that gave back is put through the template. Where it
writes both, and the call in one of our formats, tools are given to the template. One that knows no
tools is told of them in words (``told_tools``), which any template can carry; one that writes calls
in another way is told of none, as its model would write them in that way, unseen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Final

from guided.errors import RequestError
from guided.spec import Message, Tool, ToolCall
from guided.spec.tool_format import FORMATS, ToolFormat, unmarked

__all__ = ["knows_tools", "rendered_with_tools", "template_format"]

_PROPERTIES: Final = {"place": {"type": "string"}}
_TOOL: Final = Tool(
    "probe_of_tools",
    "Says nothing.",
    json.dumps({"type": "object", "properties": _PROPERTIES, "required": ["place"]}),
)
_ARGUMENTS: Final = '{"place": "nowhere"}'
_ANSWER: Final = "answer_of_the_probe"
_PROBE: Final = (
    Message("user", "a"),
    Message("assistant", "", (ToolCall(_TOOL.name, _ARGUMENTS, "probe0000"),)),
    Message("tool", _ANSWER, tool_call_id="probe0000"),
)

Rendered = Callable[[tuple[Message, ...], tuple[Tool, ...]], str]
"""Puts messages and tools through a template; raises RequestError where it refuses them."""


def rendered_with_tools(rendered: Rendered) -> str:
    """A call and what it gave back as a template writes them; RequestError where it refuses."""
    return rendered(_PROBE, (_TOOL,))


def knows_tools(rendered: Rendered) -> bool:
    """Whether a template tells of tools, and of what a call gave back."""
    try:
        told = rendered(_PROBE[:1], (_TOOL,))
        return _TOOL.name in told and _ANSWER in rendered_with_tools(rendered)
    except RequestError:
        return False


def template_format(rendered: Rendered, names: Collection[str]) -> ToolFormat | None:
    """The format in which a template writes calls; ``None`` where it has none that we know, or the
    tokenizer has not all of its special tokens among its ``names``.
    """
    if not knows_tools(rendered):
        return None
    text = rendered_with_tools(rendered)
    # The longest first: what stands in one of them may stand in another.
    for form in sorted(FORMATS.values(), key=lambda form: -len(form.header(""))):
        if unmarked(form.call(_TOOL.name, _ARGUMENTS)) in text and {*form.signs} <= {*names}:
            return form
    return None
