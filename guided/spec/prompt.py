"""Prompts as an engine takes them: a text, tokens, or the messages of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from guided.errors import RequestError
from guided.spec.message import Message
from guided.spec.result import TokenId

__all__ = ["EnginePrompt", "TokenPrompt"]

_MOST: Final = 2**31 - 1
"""The largest number of a token on the wire."""


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Tokens that the model reads as they are, with nothing before or after them.

    Special tokens may be among them. Raises RequestError for what is no token, with its place.
    """

    tokens: Sequence[TokenId]
    """Kept as a tuple."""

    def __post_init__(self) -> None:
        given: object = self.tokens
        if isinstance(given, str | bytes | bytearray) or not isinstance(given, Sequence):
            raise RequestError(
                f"the prompt is {given!r:.80}, which is no list of tokens", field="prompt"
            )
        for index, token in enumerate(given):
            if type(token) is not int or not 0 <= token <= _MOST:
                raise RequestError(
                    f"token {index} of the prompt is {token!r:.80}, which is no token",
                    field="prompt",
                    hint=f"tokens are whole numbers from 0 to {_MOST}",
                )
        object.__setattr__(self, "tokens", tuple(given))

    def __len__(self) -> int:
        return len(self.tokens)

    def read_by(self, vocabulary_size: int) -> tuple[TokenId, ...]:
        """Return the tokens for a model; raises RequestError for one that it does not have."""
        for index, token in enumerate(self.tokens):
            if token >= vocabulary_size:
                raise RequestError(
                    f"token {index} of the prompt is {token}, and those of this model are 0 to "
                    f"{vocabulary_size - 1}",
                    field="prompt",
                    hint="make the tokens with the tokenizer of this model",
                )
        return tuple(self.tokens)


EnginePrompt: TypeAlias = str | TokenPrompt | tuple[Message, ...]
"""Text and tokens are continued; messages go through the model's chat template."""
