"""A vocabulary from a fast tokenizer of transformers.

Two kinds of tokenizer know every byte. *Byte-level* ones write each byte as a letter of its own
(``Ġ`` is a space). *Byte-fallback* ones write text as it is, mostly with ``▁`` for a space, and
have a token ``<0xNN>`` for every byte. The tokenizer's own description says which kind it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from guided.errors import ModelError
from guided.masks.described_tokenizer import Description
from guided.masks.huggingface_rules import steps_of
from guided.masks.huggingface_spelling import bytes_of_letters, make_speller, token_names
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["vocabulary_from_description", "vocabulary_from_tokenizer"]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_MARKER = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_MAX_EXTRA_LOGITS = 1 << 16
"""How far an end token may be beyond a tokenizer's tokens: models have some more logits."""
_STEPS = ("normalizer", "pre_tokenizer")
"""What is applied to a text before it is cut into tokens, in order."""
_HINT = "choose a model whose tokenizer is byte-level BPE or falls back to bytes"


def vocabulary_from_tokenizer(
    tokenizer: PreTrainedTokenizerBase,
    *,
    end_ids: Iterable[int] = (),
    logits_width: int | None = None,
) -> Vocabulary:
    """Return the exact bytes of every token of a fast tokenizer, byte-level or with byte fallback.

    ``end_ids`` are end-of-sequence tokens besides the tokenizer's own. Tokens from ``logits_width``
    on have no logit, so they can never be chosen and are left out.

    Raises ModelError if the tokens do not say which bytes they stand for, if the tokenizer cannot
    spell every text, or if an end-of-sequence token has no logit.
    """
    if not tokenizer.is_fast:
        raise ModelError(
            f"tokenizer {type(tokenizer).__name__} is slow: it does not say which bytes its tokens "
            "stand for",
            hint="choose a model with a fast tokenizer (a tokenizer.json in its folder)",
        )
    description: Description = json.loads(tokenizer.backend_tokenizer.to_str())
    own = () if tokenizer.eos_token_id is None else (int(tokenizer.eos_token_id),)
    return vocabulary_from_description(
        description,
        special_ids=tokenizer.all_special_ids,
        end_ids=(*own, *end_ids),
        logits_width=logits_width,
    )


def vocabulary_from_description(
    description: Description,
    *,
    special_ids: Iterable[int] = (),
    end_ids: Iterable[int],
    logits_width: int | None = None,
) -> Vocabulary:
    """Return the vocabulary of a ``tokenizer.json``, and of special tokens that it does not know.

    ``end_ids`` are all end-of-sequence tokens: the description names none.

    The order of the checks matters: ends and special tokens are no text, whatever they are written
    as, and an added token's text is taken as it stands, because it is found before bytes are
    written as letters.
    """
    is_byte_level = _is_byte_level(description)
    space_letter = None if is_byte_level else _space_letter(description)
    tokens = _token_texts(description)
    ends = _checked_ends(end_ids, max(tokens, default=0), logits_width)
    size = max([*tokens, *ends], default=-1) + 1
    if logits_width is not None:
        size = min(size, logits_width)

    added = {int(entry["id"]) for entry in description["added_tokens"]}
    special = _special_ids(description).union(special_ids, ends)
    token_bytes: list[bytes | None] = [None] * size
    for token, text in tokens.items():
        if token >= size or token in special:
            continue
        if not is_byte_level:
            token_bytes[token] = _bytes_with_fallback(text, space_letter) or None
        elif token in added:
            # Added tokens are found in the text before it is written as letters.
            token_bytes[token] = text.encode() or None
        else:
            token_bytes[token] = bytes_of_letters(text) or None
    named = {
        text: TokenId(token)
        for token, text in tokens.items()
        if token < size and text and (token in special or (token in added and _is_marker(text)))
    }
    spell, rules = make_speller(description, token_bytes, space_letter, is_byte_level=is_byte_level)
    return Vocabulary(
        token_bytes=tuple(token_bytes),
        end_ids=frozenset(map(TokenId, ends)),
        spell=spell,
        rules=rules,
        named=named,
    )


def _is_marker(text: str) -> bool:
    """Return whether an added token that is text is a name in brackets, such as ``<think>``.

    Other texts hardly contain such a name.
    """
    return _MARKER.fullmatch(text) is not None


def _is_byte_level(description: Description) -> bool:
    """Tell the two kinds apart; raises ModelError for a tokenizer that is neither."""
    model = description["model"]
    kind = model["type"]
    if kind not in ("BPE", "Unigram"):
        raise ModelError(
            f"a {kind} tokenizer cannot spell every text: it replaces what it does not know",
            hint=_HINT,
        )
    for mark in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(mark):
            raise ModelError(
                f"the tokenizer marks parts of words with {model[mark]!r} ({mark}), so its tokens "
                "do not say where spaces are",
                hint=_HINT,
            )
    if any(part["type"] == "ByteLevel" for part in steps_of(description, *_STEPS)):
        return True
    if model.get("byte_fallback"):
        return False
    raise ModelError(
        f"the {kind} tokenizer has no byte fallback: it cannot spell characters that it does not "
        "know",
        hint=_HINT,
    )


def _space_letter(description: Description) -> str | None:
    """Return the letter that the tokenizer writes for a space, ``None`` if spaces stay spaces.

    The first step that replaces spaces decides: it is the one that sees them.
    """
    for part in steps_of(description, *_STEPS):
        if part["type"] == "Metaspace":
            return str(part["replacement"])
        if part["type"] == "Replace" and part["pattern"] == {"String": " "}:
            return str(part["content"])
    return None


def _token_texts(description: Description) -> dict[int, str]:
    """Return the texts of all tokens by id, as the tokenizer writes them; added tokens included.

    If the model and the added tokens have a text for the same id, the added one counts.
    """
    texts = {int(token): str(text) for text, token in token_names(description["model"])}
    texts.update((int(entry["id"]), entry["content"]) for entry in description["added_tokens"])
    return texts


def _bytes_with_fallback(text: str, space_letter: str | None) -> bytes:
    if byte := _BYTE_TOKEN.fullmatch(text):
        return bytes.fromhex(byte[1])
    return (text if space_letter is None else text.replace(space_letter, " ")).encode()


def _special_ids(description: Description) -> frozenset[int]:
    """Return the tokens that stand for no text: special ones, and the one for unknown text."""
    special = {int(entry["id"]) for entry in description["added_tokens"] if entry["special"]}
    model = description["model"]
    if model["type"] == "Unigram":
        unknown = model["unk_id"]
    else:
        unknown = model["vocab"].get(model["unk_token"])
    return frozenset(special if unknown is None else special | {int(unknown)})


def _checked_ends(end_ids: Iterable[int], last: int, logits_width: int | None) -> frozenset[int]:
    """Return the end-of-sequence tokens; raises ModelError for one that can have no logit.

    An end far beyond the tokens is refused: the vocabulary gets a place for each id up to it.
    """
    ends = frozenset(end_ids)
    for end in sorted(ends):
        if logits_width is not None and end >= logits_width:
            raise ModelError(
                f"end-of-sequence token {end} is beyond the {logits_width} logits of the model, "
                "which could never end a text by it",
                hint="use the tokenizer and the generation config that belong to the model",
            )
        if not 0 <= end <= last + _MAX_EXTRA_LOGITS:
            raise ModelError(
                f"end-of-sequence token {end} is none of the tokenizer, whose last token is {last}",
                hint="name the tokens by their ids",
            )
    return ends
