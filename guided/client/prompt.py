"""The ways to say what the model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from guided.spec import Message

__all__ = ["Prompt", "RawPrompt", "spoken_prompt"]


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """Text that goes to the model as it is, around the chat template."""

    text: str


Prompt: TypeAlias = str | Sequence[Message] | RawPrompt
"""A string is one turn of the user in the model's chat template, since that is how chat models
are trained to be asked; several turns are messages; a ``RawPrompt`` is text to be continued."""


def spoken_prompt(prompt: Prompt) -> str | tuple[Message, ...]:
    """The prompt as the engine wants it: plain text, or the turns of a conversation."""
    match prompt:
        case RawPrompt(text):
            return text
        case "":
            return ""
        case str():
            return (Message("user", prompt),)
        case _:
            return tuple(prompt)
