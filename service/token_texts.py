"""The tokens that calls ask for or name: checked in the server, put into words in the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from guided.errors import LimitExceededError, RequestError
from guided.spec import PromptTokens, TokenId
from guided.stats import ModelInfo

if TYPE_CHECKING:
    from guided.masks.vocabulary import Vocabulary

__all__ = ["checked_tokens", "describe_tokens", "text_of"]


def checked_tokens(tokens: Sequence[int], model: ModelInfo) -> tuple[TokenId, ...]:
    """Return tokens to be turned into text; raises RequestError for one that does not exist.

    Raises LimitExceededError for more than the context window holds, because the engine makes no
    step while it handles them.
    """
    if len(tokens) > model.context_window:
        raise LimitExceededError(
            f"there are {len(tokens)} tokens, but the context window holds {model.context_window}",
            limit=model.context_window,
            field="tokens",
            hint="send fewer in one call",
        )
    for index, token in enumerate(tokens):
        if not 0 <= token < model.vocabulary_size:
            raise RequestError(
                f"tokens[{index}] is {token}, and the vocabulary has {model.vocabulary_size} "
                "tokens",
                field="tokens",
            )
    return tuple(map(TokenId, tokens))


def describe_tokens(
    vocabulary: Vocabulary, tokens: tuple[TokenId, ...], *, texts: bool
) -> PromptTokens:
    """Return the tokens of a prompt, with their texts if ``texts`` says so."""
    return PromptTokens(tokens, vocabulary.texts(tokens) if texts else ())


def text_of(vocabulary: Vocabulary, tokens: Sequence[int]) -> bytes:
    """Return the bytes of tokens that were checked."""
    return b"".join(vocabulary.texts(map(TokenId, tokens)))
