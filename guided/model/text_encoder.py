"""Turns texts into tokens, with or without the control tokens that they spell."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from guided.errors import LimitExceededError
from guided.model.control_tokens import ControlTokens
from guided.model.tokenizer_copy import rename_entry, without_control
from guided.spec.option import check_characters

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedTokenizerBase

__all__ = ["TextEncoder"]

_LONG: Final = 8
"""The characters for each token of the window above which a text is tried from its beginning; few
texts of any language have as many."""
_GROWTH: Final = 4
"""How much longer each beginning is than the one before, so that all together take little more
than the text itself."""


class TextEncoder:
    """A tokenizer, and a copy of it that knows control tokens only by private names.

    May be used from several threads.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, control: ControlTokens) -> None:
        backend: Tokenizer = tokenizer.backend_tokenizer
        # No part of a prompt may be cut off.
        backend.no_truncation()
        backend.no_padding()
        self._tokenizer = backend
        self._control = control

    def encode(
        self, text: str, *, add_special_tokens: bool = False, longest: int | None = None
    ) -> list[int]:
        """Return the tokens of a text, in which a control token counts wherever it is spelled.

        ``add_special_tokens`` adds the tokenizer's usual prefix. Raises LimitExceededError for more
        than the ``longest`` number of tokens.
        """
        return _ids(self._tokenizer, text, add_special_tokens, longest)

    def encode_named(
        self, text: str, *, add_special_tokens: bool = False, longest: int | None = None
    ) -> list[int]:
        """Return the same tokens, but a control token counts only by its private name."""
        tokenizer, own = self._without_control
        ids = _ids(tokenizer, text, add_special_tokens, longest)
        return [own.get(token, token) for token in ids]

    @cached_property
    def _without_control(self) -> tuple[Tokenizer, dict[int, int]]:
        """The copy, and the original of each token that was added to it."""
        private = self._control.private
        copy = without_control(self._tokenizer, self._control)
        added = self._tokenizer.get_added_tokens_decoder()
        own = {token: entry for token, entry in added.items() if entry.content in private}
        copy.add_tokens(
            [rename_entry(entry, private[entry.content], special=False) for entry in own.values()]
        )
        return copy, {_id_of(copy, private[entry.content]): token for token, entry in own.items()}


def _id_of(tokenizer: Tokenizer, name: str) -> int:
    token: int | None = tokenizer.token_to_id(name)
    assert token is not None, "it was added"
    return token


def _ids(
    tokenizer: Tokenizer, text: str, add_special_tokens: bool, longest: int | None
) -> list[int]:
    """Return the tokens of a text; LimitExceededError if there are more than ``longest``, and
    RequestError for half of a surrogate pair.
    """
    check_characters(text, "the prompt", "prompt")
    if longest is not None:
        _check_beginnings(tokenizer, text, longest)
    encoding = _encode(tokenizer, text, add_special_tokens)
    if longest is not None and len(encoding) > longest:
        raise _too_long(f"the prompt has {len(encoding)}", longest)
    ids: list[int] = encoding.ids
    return ids


def _check_beginnings(tokenizer: Tokenizer, text: str, longest: int) -> None:
    """Raise LimitExceededError if a part of a long text has far more tokens than may be.

    So refusing a text takes time and memory by ``longest``, not by the text: a million tokens take
    seconds and 300 MB. Where a text is cut, tokens differ, but not half of them.
    """
    length = _LONG * longest
    while length < len(text):
        tokens = len(_encode(tokenizer, text[:length], False))
        if tokens > 2 * longest:
            raise _too_long(f"{length} characters of the prompt alone have {tokens}", longest)
        length *= _GROWTH


def _encode(tokenizer: Tokenizer, text: str, add_special_tokens: bool) -> Encoding:
    # This method releases the interpreter to other threads, and keeps no offsets.
    (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    return encoding


def _too_long(found: str, longest: int) -> LimitExceededError:
    return LimitExceededError(
        f"{found} tokens, but the context window holds {longest}",
        limit=longest,
        field="prompt",
        hint="shorten the prompt",
    )
