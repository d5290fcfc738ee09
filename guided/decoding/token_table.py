"""A vocabulary read in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from guided.spec import TokenId

__all__ = ["TokenTable"]


class TokenTable:
    """The bytes of every token, and the token of given bytes."""

    def __init__(self, token_bytes: Sequence[bytes | None]) -> None:
        self.bytes = token_bytes
        """By token id; ``None`` where a token stands for no text."""
        pairs = reversed(list(enumerate(token_bytes)))
        self._ids = {text: TokenId(token) for token, text in pairs if text is not None}

    def find(self, text: bytes) -> TokenId | None:
        """The token that stands for exactly these bytes, the lowest if there are several."""
        return self._ids.get(text)

    def shorter(self, token: TokenId) -> TokenId | None:
        """The longest other token that ``token`` begins with."""
        text = self.bytes[token] or b""
        for size in range(len(text) - 1, 0, -1):
            other = self._ids.get(text[:size])
            if other is not None:
                return other
        return None

    def longest(self, tokens: Iterable[int]) -> list[TokenId]:
        """Those of the tokens that no other of them begins with, in the order of their texts."""
        spelled = sorted((text, token) for token in tokens if (text := self.bytes[token]))
        return [
            TokenId(token)
            for (text, token), (follower, _) in pairwise([*spelled, (b"", -1)])
            if not follower.startswith(text)
        ]
