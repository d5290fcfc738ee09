"""A text in as few tokens as will do, whatever the tokenizer itself would make of it."""

from __future__ import annotations

from collections.abc import Sequence

from guided.spec import TokenId

__all__ = ["TokenCover"]

_LONGEST_TOKEN = 32
"""Longer tokens are left out: ends of texts rarely hold one, and each costs a look-up a byte."""


class TokenCover:
    """Covers texts with tokens of one vocabulary."""

    def __init__(self, token_bytes: Sequence[bytes | None]) -> None:
        self._tokens = {
            text: TokenId(token)
            for token, text in reversed(list(enumerate(token_bytes)))
            if text is not None and len(text) <= _LONGEST_TOKEN
        }
        self._longest: dict[bytes, int] = {}
        """By the first two bytes, or the only one, the length of the longest token."""
        for text in self._tokens:
            self._longest[text[:2]] = max(len(text), self._longest.get(text[:2], 0))

    def cover(self, text: bytes) -> tuple[TokenId, ...]:
        """The fewest tokens whose bytes make up ``text``; every byte of it has to be a token.

        Dynamic programming from the end of the text; linear in its length.
        """
        size = len(text)
        fewest = [0] * (size + 1)  # tokens needed from each position to the end
        step = [0] * size
        for start in reversed(range(size)):
            longest = self._longest.get(text[start : start + 2], 1)
            choices = [
                (fewest[end] + 1, -end)
                for end in range(start + 1, min(start + longest, size) + 1)
                if text[start:end] in self._tokens
            ]
            fewest[start], end = min(choices)
            step[start] = -end
        tokens, position = [], 0
        while position < size:
            tokens.append(self._tokens[text[position : step[position]]])
            position = step[position]
        return tuple(tokens)
