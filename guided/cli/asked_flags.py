"""The flags of a request for one answer: prompt, constraint, and all options."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Any, Final

import typer

from guided.cli.common import read_text
from guided.cli.constraint_flags import (
    constraint_flags,
    only_one,
    read_grammar_flags,
    read_template_flags,
    read_tool_flags,
)
from guided.cli.flags import (
    file_flag,
    flag,
    json_flags,
    read_documents,
    read_json_options,
    read_request_flags,
    request_flags,
)
from guided.cli.named_schema import read_named_schema
from guided.response_types import is_response_type
from guided.spec import JsonOptions, Message, Reasoning

__all__ = ["asked_flags", "read_asked_flags", "read_prompt_flags", "read_thought_flags"]

_PROMPT: Final = "Prompt"
_THOUGHTS: Final = "Thoughts before the answer"
_STANDARD_INPUT: Final = "-"


def asked_flags() -> Iterator[Parameter]:
    """Yield all flags of a request for an answer."""
    yield from _prompt_flags()
    yield from constraint_flags()
    yield from _thought_flags()
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
        schema = read_named_schema(given["schema"])
        options["response_model" if is_response_type(schema) else "schema"] = schema
    return asked, options


# The prompt


def _prompt_flags() -> Iterator[Parameter]:
    yield flag(
        "prompt",
        str | None,
        None,
        "Prompt for the model; - reads it from standard input.",
        group=_PROMPT,
    )
    yield file_flag(
        "system",
        "File with the system message, which comes before all other messages.",
        group=_PROMPT,
    )
    yield file_flag(
        "messages",
        "File with a conversation: a JSON list of objects with role and content. --prompt, if"
        " given, is added as its last turn.",
        group=_PROMPT,
    )


def read_prompt_flags(
    prompt: str | None, system: Path | None, messages: Path | None
) -> str | list[Message]:
    """Return the prompt of the flags, a plain string if it is a single turn of the user."""
    if prompt is None and messages is None:
        raise typer.BadParameter("neither --prompt nor --messages is given")
    asked = _read_standard_input() if prompt == _STANDARD_INPUT else prompt
    if system is None and messages is None and asked is not None:
        return asked
    turns = [] if system is None else [Message("system", _text_of(system))]
    turns += [] if messages is None else _read_messages(messages)
    turns += [] if asked is None else [Message("user", asked)]
    return turns


def _read_standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"standard input is not UTF-8: byte {error.start} is wrong"
        ) from error


def _text_of(file: Path) -> str:
    """Return a file's text without the line break that editors add at the end."""
    return read_text(file).removesuffix("\n")


def _read_messages(file: Path) -> list[Message]:
    try:
        listed: Any = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{file} is not JSON that can be read: {error}") from error
    if not isinstance(listed, list) or not listed:
        raise typer.BadParameter(f"{file} is not a list of at least one message")
    return [_message(file, number, turn) for number, turn in enumerate(listed, start=1)]


def _message(file: Path, number: int, turn: Any) -> Message:
    if not isinstance(turn, dict) or turn.keys() != {"role", "content"}:
        raise typer.BadParameter(f"message {number} of {file} must have only role and content")
    role, content = turn["role"], turn["content"]
    if not isinstance(role, str) or not isinstance(content, str):
        raise typer.BadParameter(f"role and content of message {number} of {file} must be strings")
    return Message(role, content)


# Thoughts


def _thought_flags() -> Iterator[Parameter]:
    yield flag(
        "reasoning",
        int | None,
        None,
        "Let the model think first, for at most this many of --max-tokens; with 0 it answers"
        " at once.",
        metavar="TOKENS",
        group=_THOUGHTS,
    )
    for name, verb in (("thoughts_begin", "begins"), ("thoughts_end", "ends")):
        yield flag(
            name,
            str,
            "",
            f"Text that {verb} the thoughts, if the chat template does not say.",
            group=_THOUGHTS,
        )


def read_thought_flags(tokens: int | None, begin: str, end: str) -> Reasoning | None:
    """Return the thoughts that the flags request; raises RequestError for impossible ones."""
    if tokens is None:
        if begin or end:
            raise typer.BadParameter("--thoughts-begin and --thoughts-end need --reasoning")
        return None
    return Reasoning(tokens, begin, end)
