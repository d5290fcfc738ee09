"""Texts to tokens, with the control tokens that they spell or without them."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from guided.errors import LimitExceededError
from guided.masks.huggingface_spelling import hide_tokens
from guided.model.control_tokens import ControlTokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

__all__ = ["TextEncoder"]

_Description: TypeAlias = dict[str, Any]
"""What ``tokenizer.json`` holds."""


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
        from tokenizers import AddedToken, Tokenizer

        private = self._control.private
        described: _Description = json.loads(self._tokenizer.to_str())
        copy = Tokenizer.from_str(json.dumps(_without(described, self._control)))
        # Special tokens that a text spells are text.
        copy.encode_special_tokens = True
        own = [entry for entry in described["added_tokens"] if entry["content"] in private]
        for entry in own:
            flags = {
                name: entry[name] for name in ("single_word", "lstrip", "rstrip", "normalized")
            }
            copy.add_tokens([AddedToken(private[entry["content"]], **flags)])
        known = copy.get_vocab(with_added_tokens=True)
        return copy, {known[private[entry["content"]]]: int(entry["id"]) for entry in own}


def _without(described: _Description, control: ControlTokens) -> _Description:
    """A tokenizer that takes no text for a control token; the ids of all others stay."""
    model = described["model"]
    # Those that the model knows as well could come of its merges or pieces.
    hidden, names = hide_tokens(model, lambda _, name: name in control.private, control.never)
    if model.get("unk_token") in names:
        hidden["unk_token"] = f"{control.never}{model['vocab'][model['unk_token']]}"
    added = [
        {**entry, "special": entry["special"] or entry["content"] in control.private}
        for entry in described["added_tokens"]
        if entry["content"] not in names
    ]
    return {**described, "model": hidden, "added_tokens": added}


def _ids(
    tokenizer: Tokenizer, text: str, add_special_tokens: bool, longest: int | None
) -> list[int]:
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
