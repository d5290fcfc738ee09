"""The flags of a request for one answer: prompt, constraint, and all options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from guided.cli.common import read_text
from guided.cli.constraint_flags import (
    ChoiceFlag,
    GrammarFlag,
    HoleFlag,
    RegexFlag,
    SingleCallFlag,
    TemplateFlag,
    ToolChoiceFlag,
    ToolsFlag,
    only_one,
    read_grammar_flags,
    read_template_flags,
    read_tool_flags,
)
from guided.cli.flags import (
    DocumentFlag,
    json_flags,
    read_documents,
    read_json_options,
    read_request_flags,
    request_flags,
)
from guided.cli.prompt_flags import MessagesFlag, PromptFlag, SystemFlag, read_prompt_flags
from guided.cli.thought_flags import (
    ReasoningFlag,
    ThoughtsBeginFlag,
    ThoughtsEndFlag,
    read_thought_flags,
)
from guided.spec import JsonOptions, Message
from guided.spec.tagged import Calls

__all__ = ["asked_flags", "read_asked_flags"]

SchemaFlag: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="File with a JSON Schema for the answer.", exists=True, dir_okay=False),
]
_FLAGS: Final[Mapping[str, tuple[Any, object]]] = {
    "prompt": (PromptFlag, None),
    "system": (SystemFlag, None),
    "messages": (MessagesFlag, None),
    "schema": (SchemaFlag, None),
    "document": (DocumentFlag, None),
    "grammar": (GrammarFlag, None),
    "regex": (RegexFlag, None),
    "choice": (ChoiceFlag, None),
    "template": (TemplateFlag, None),
    "hole": (HoleFlag, None),
    "tools": (ToolsFlag, None),
    "tool_choice": (ToolChoiceFlag, Calls.AUTO),
    "single_call": (SingleCallFlag, False),
    "reasoning": (ReasoningFlag, None),
    "thoughts_begin": (ThoughtsBeginFlag, ""),
    "thoughts_end": (ThoughtsEndFlag, ""),
}
"""The type and the default of each flag that is not an option of a request."""


def asked_flags() -> Iterator[Parameter]:
    """Yield all flags of a request for an answer."""
    for name, (kind, default) in _FLAGS.items():
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    yield from request_flags()
    yield from json_flags()


def read_asked_flags(given: Mapping[str, Any]) -> tuple[str | list[Message], dict[str, Any]]:
    """Return the prompt and the client's options that the flags stand for."""
    asked = read_prompt_flags(given["prompt"], given["system"], given["messages"])
    json_options = read_json_options(given)
    options = read_request_flags(given)
    options["grammar"] = only_one(
        read_grammar_flags(given["grammar"], given["regex"], given["choice"]),
        read_template_flags(given["template"], given["hole"], json_options),
        read_tool_flags(
            given["tools"], given["tool_choice"], json_options, single=given["single_call"]
        ),
    )
    # A template and tools have used them.
    if given["template"] is not None or given["tools"] is not None:
        json_options = JsonOptions()
    options |= {"json_options": json_options, "documents": read_documents(given["document"])}
    options["reasoning"] = read_thought_flags(
        given["reasoning"], given["thoughts_begin"], given["thoughts_end"]
    )
    if given["schema"] is not None:
        options["schema"] = read_text(given["schema"])
    return asked, options
