"""A byte-level BPE tokenizer of transformers, and the bytes of each of its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import AutoTokenizer

__all__ = ["ByteLevelTokenizer"]


class ByteLevelTokenizer:
    """The tokenizer in a folder.

    Its bytes are read here and not by an engine's own code, so that they check every engine alike.
    """

    def __init__(self, folder: str) -> None:
        self.hf: Any = AutoTokenizer.from_pretrained(folder)
        self.vocab_size = len(self.hf)
        self.eos_id: int = self.hf.eos_token_id
        added = self.hf.added_tokens_decoder
        letters = _bytes_of_letters()
        self._bytes = [b""] * self.vocab_size
        for text, token in self.hf.get_vocab().items():
            if token in added:
                self._bytes[token] = added[token].content.encode()
            elif set(text) <= letters.keys():
                self._bytes[token] = bytes(letters[letter] for letter in text)
            else:
                raise SystemExit(f"{folder} is not a byte-level BPE vocabulary: {text!r}")

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without special ones around it."""
        ids: list[int] = self.hf.encode(text, add_special_tokens=False)
        return ids

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """Return what tokens spell."""
        return b"".join(self._bytes[token] for token in ids)


def _bytes_of_letters() -> Mapping[str, int]:
    """Return the byte that each letter of a byte-level vocabulary stands for."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + place): byte for place, byte in enumerate(others)
    }
