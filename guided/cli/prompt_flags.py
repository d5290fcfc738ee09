"""Flags for the prompt."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from guided.cli.common import read_text
from guided.spec import Message

__all__ = ["MessagesFlag", "PromptFlag", "SystemFlag", "read_prompt_flags"]

_STANDARD_INPUT = "-"
_PANEL = "Prompt"

PromptFlag: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Prompt for the model; - reads it from standard input.", rich_help_panel=_PANEL
    ),
]
SystemFlag: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--system",
        help="File with the system message, which comes before all other messages.",
        exists=True,
        dir_okay=False,
        rich_help_panel=_PANEL,
    ),
]
MessagesFlag: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="File with a conversation: a JSON list of objects with role and content. --prompt, if"
        " given, is added as its last turn.",
        exists=True,
        dir_okay=False,
        rich_help_panel=_PANEL,
    ),
]


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
