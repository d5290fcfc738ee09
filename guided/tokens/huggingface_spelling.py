"""How a tokenizer spells a text that stands in the middle of another.

A tokenizer as it is loaded may put a space before the text, normalise it, cut it short, or read
``</s>`` in it as the end. The speller works on a copy of the tokenizer with all of that off.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from guided.errors import ModelError
from guided.tokens.vocabulary import Speller

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["make_speller"]

_Description: TypeAlias = dict[str, Any]
"""A part of what ``tokenizer.json`` holds."""

_TRIAL = ' a  b\n\n\t{"x": [1, 2345, -0.5e3], "é": "漢字 😀 e\u0301"} Don\'t.  \r\n \x7f'
"""Text of all the sorts that tokenizers are known to lose."""


def make_speller(
    description: _Description, token_bytes: tuple[bytes | None, ...], space: str | None
) -> Speller:
    """A speller for the tokenizer described; ``space`` is the letter that it writes spaces with."""
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(json.dumps(_for_spelling(description, len(token_bytes), space)))
    # Special tokens in a text are text: a schema may well contain "</s>".
    copy.encode_special_tokens = True
    texts = [text or b"" for text in token_bytes]
    # The copy may still take tokens that were left out; they stand for nothing here.
    texts += [b""] * (copy.get_vocab_size(with_added_tokens=True) - len(texts))
    plain = _Spelling(copy, texts)
    spell: Speller = plain
    if space is not None:
        spell = _SpellingWithLetter(plain, space, _byte_tokens(copy, space))
    spell(_TRIAL)
    return spell


def _byte_tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    tokens = []
    for byte in text.encode():
        token = tokenizer.token_to_id(f"<0x{byte:02X}>")
        if token is None:
            raise ModelError(
                f"the tokenizer falls back to bytes, but has no token <0x{byte:02X}>",
                hint="choose a model whose tokenizer has one for every byte",
            )
        tokens.append(token)
    return tokens


class _Spelling:
    """Spells with the tokenizer, and checks that nothing of the text was lost."""

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[bytes]) -> None:
        self._tokenizer = tokenizer
        self._texts = texts

    def __call__(self, text: str) -> Sequence[int]:
        tokens = self._tokenizer.encode(text, add_special_tokens=False).ids
        if b"".join(map(self._texts.__getitem__, tokens)) != text.encode():
            raise ModelError(
                f"the tokenizer cannot spell {text!r}: what it makes of it reads "
                f"{b''.join(map(self._texts.__getitem__, tokens))!r}"
            )
        return tokens


class _SpellingWithLetter:
    """Spells the letter that stands for a space, where a text itself has it, byte by byte."""

    def __init__(self, spell: _Spelling, letter: str, byte_tokens: Sequence[int]) -> None:
        self._spell = spell
        self._letter = letter
        self._byte_tokens = byte_tokens

    def __call__(self, text: str) -> Sequence[int]:
        if self._letter not in text:
            return self._spell(text)
        first, *rest = text.split(self._letter)
        tokens = list(self._spell(first))
        for piece in rest:
            tokens += self._byte_tokens
            tokens += self._spell(piece)
        return tokens


def _for_spelling(description: _Description, size: int, space: str | None) -> _Description:
    return {
        **description,
        "model": {**description["model"], "dropout": None}
        if description["model"]["type"] == "BPE"
        else description["model"],
        "normalizer": _exact(description["normalizer"], space),
        "pre_tokenizer": _without_dummy_space(description["pre_tokenizer"]),
        "post_processor": None,
        "truncation": None,
        "padding": None,
        "added_tokens": [_as_text(entry, size) for entry in description["added_tokens"]],
    }


def _exact(normalizer: _Description | None, space: str | None) -> _Description | None:
    """Keep of a normalizer only the steps that lose nothing: how spaces and bytes are written."""
    if normalizer is None:
        return None
    if normalizer["type"] == "Sequence":
        steps = [kept for step in normalizer["normalizers"] if (kept := _exact(step, space))]
        return {**normalizer, "normalizers": steps}
    if normalizer["type"] == "ByteLevel":
        return normalizer
    if normalizer["type"] == "Replace" and normalizer["pattern"] == {"String": " "}:
        return normalizer if normalizer["content"] == space else None
    return None


def _without_dummy_space(pre_tokenizer: _Description | None) -> _Description | None:
    if pre_tokenizer is None:
        return None
    if pre_tokenizer["type"] == "Sequence":
        steps = [_without_dummy_space(step) for step in pre_tokenizer["pretokenizers"]]
        return {**pre_tokenizer, "pretokenizers": steps}
    if pre_tokenizer["type"] == "ByteLevel":
        return {**pre_tokenizer, "add_prefix_space": False}
    if pre_tokenizer["type"] == "Metaspace":
        # One of these two says it, depending on the age of the description.
        without = {"prepend_scheme": "never", "add_prefix_space": False}
        return {**pre_tokenizer, **{k: v for k, v in without.items() if k in pre_tokenizer}}
    return pre_tokenizer


def _as_text(entry: _Description, size: int) -> _Description:
    """Mark an added token as special, so that it is not looked for, where it could not be used."""
    swallows_spaces = entry["lstrip"] or entry["rstrip"]
    if entry["id"] >= size or swallows_spaces:
        return {**entry, "special": True}
    return entry
