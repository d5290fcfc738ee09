"""Derives from a tokenizer how long a prompt may be in bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from guided.spec.prompt_bound import PromptBound

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from guided.model.load import ModelTexts

__all__ = ["prompt_bound"]

_SHRINKS_BY: Final = {"ByteLevel": 1, "NFC": 4, "NFD": 3, "Prepend": 1}
"""The largest factor by which a step of a normalizer may shorten a text in UTF-8.

For the normal forms (Unicode Standard Annex 15): the three bytes of the kelvin sign become a K, and
the seven bytes of U+1FBE, U+0308, U+0301 become the two of U+0390.
"""
_LAST_SPACE: Final = 0x3000
"""The last of the characters that Unicode counts as white space."""


def prompt_bound(model: ModelTexts, context_window: int) -> PromptBound | None:
    """Return the bound for a model, or ``None`` if its tokenizer may make any text short.

    No token stands for more bytes than the longest one, times the factor by which the normalizer
    may shorten a text. Bytes that a token may swallow, or that no token spells, are not counted.
    """
    tokenizer: Tokenizer = model.tokenizer.backend_tokenizer
    # Describing the normalizer alone; all of a large tokenizer takes a second.
    normalizer = tokenizer.normalizer
    # A sequence without steps is false.
    described = None if normalizer is None else json.loads(normalizer.__getstate__())
    shrinks_by = _shrinks_by(described)
    if shrinks_by is None:
        return None
    known = [text for text in model.vocabulary.token_bytes if text]
    single = {text for text in known if len(text) == 1}
    lost = {byte for byte in range(256) if bytes([byte]) not in single}
    # A token that takes the spaces beside it may stand for any number of them.
    added = tokenizer.get_added_tokens_decoder().values()
    if any(entry.lstrip or entry.rstrip for entry in added):
        lost.update("".join(filter(str.isspace, map(chr, range(_LAST_SPACE + 1)))).encode())
    left_out = bytes(sorted(lost))
    # A special token stands for its name if a text spells it.
    names = [entry.content.encode() for entry in added]
    longest = max(len(text.translate(None, left_out)) for text in [*known, *names])
    return PromptBound(context_window, longest * shrinks_by, left_out) if longest else None


def _shrinks_by(normalizer: dict[str, Any] | None) -> int | None:
    """Return the largest factor by which a normalizer shortens a text; ``None`` if unknown."""
    if normalizer is None:
        return 1
    if normalizer["type"] == "Sequence":
        factor = 1
        for step in normalizer["normalizers"]:
            shrinks_by = _shrinks_by(step)
            if shrinks_by is None:
                return None
            factor *= shrinks_by
        return factor
    if normalizer["type"] == "Replace":
        searched, written = normalizer["pattern"].get("String"), normalizer["content"]
        is_longer = searched is not None and len(written.encode()) >= len(searched.encode())
        return 1 if is_longer else None
    return _SHRINKS_BY.get(normalizer["type"])
