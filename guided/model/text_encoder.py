"""Texts to tokens, with the control tokens that they spell or without them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from guided.errors import LimitExceededError
from guided.model.control_tokens import ControlTokens
from guided.model.tokenizer_copy import renamed, without_control

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

__all__ = ["TextEncoder"]


class TextEncoder:
    """A tokenizer, and a copy of it that knows control tokens by private names alone.

    May be used from several threads.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, control: ControlTokens) -> None:
        backend: Tokenizer = tokenizer.backend_tokenizer
        # A part of a prompt must not go unread.
        backend.no_truncation()
        backend.no_padding()
        self._tokenizer = backend
        self._control = control

    def encode(
        self, text: str, *, add_special_tokens: bool = False, longest: int | None = None
    ) -> list[int]:
        """The tokens of a text, in which a control token is one wherever it is spelled.

        ``add_special_tokens`` puts before it what the tokenizer puts before any text. Raises
        LimitExceededError for more than the ``longest`` number of tokens.
        """
        return _ids(self._tokenizer, text, add_special_tokens, longest)

    def encode_named(
        self, text: str, *, add_special_tokens: bool = False, longest: int | None = None
    ) -> list[int]:
        """The same where a control token is one by its private name alone."""
        tokenizer, own = self._without_control
        ids = _ids(tokenizer, text, add_special_tokens, longest)
        return [own.get(token, token) for token in ids]

    @cached_property
    def _without_control(self) -> tuple[Tokenizer, dict[int, int]]:
        """The copy, and which token each of those is that were added to it."""
        private = self._control.private
        copy = without_control(self._tokenizer, self._control)
        added = self._tokenizer.get_added_tokens_decoder()
        own = {token: entry for token, entry in added.items() if entry.content in private}
        copy.add_tokens(
            [renamed(entry, private[entry.content], special=False) for entry in own.values()]
        )
        return copy, {_id_of(copy, private[entry.content]): token for token, entry in own.items()}


def _id_of(tokenizer: Tokenizer, name: str) -> int:
    token: int | None = tokenizer.token_to_id(name)
    assert token is not None, "it was added"
    return token


def _ids(
    tokenizer: Tokenizer, text: str, add_special_tokens: bool, longest: int | None
) -> list[int]:
    """The tokens of a text; LimitExceededError where there are more than ``longest``."""
    # Of what encodes, this gives the interpreter to other threads, and keeps no offsets.
    (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    if longest is not None and len(encoding) > longest:
        raise LimitExceededError(
            f"the prompt has {len(encoding)} tokens, but the context window holds {longest}",
            limit=longest,
            field="prompt",
            hint="shorten the prompt",
        )
    ids: list[int] = encoding.ids
    return ids
