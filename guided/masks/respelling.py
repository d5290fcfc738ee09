"""A text that tokens of an answer spell first, and which tokens do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from guided.masks.fewest_tokens import FewestTokens
from guided.masks.mask import Mask, mask_of
from guided.masks.trie import TokenTrie
from guided.spec import TokenId

__all__ = ["Respelling"]


class Respelling:
    """A text that the first tokens of an answer spell; the last of them may reach beyond it.

    May be used from several threads: what is remembered follows from its place.
    """

    def __init__(self, text: bytes, trie: TokenTrie, token_bytes: Sequence[bytes | None]) -> None:
        """``token_bytes`` has by token the bytes in ``trie``; tokens have to spell the text."""
        fewest = FewestTokens(trie)
        self.text = text
        self._trie = trie
        self._token_bytes = token_bytes
        self._rests = [
            fewest.tokens(text[place:]) if fewest.spells(text[place:]) else None
            for place in range(len(text) + 1)
        ]
        self._masks: dict[int, Mask] = {}

    def rest(self, place: int) -> tuple[TokenId, ...]:
        """Return the fewest tokens that spell exactly the rest of the text."""
        rest = self._rests[place]
        assert rest is not None, f"no tokens spell {self.text[place:]!r}"
        return rest

    def after(self, place: int, token: TokenId) -> int:
        """Return the place after a token of ``mask(place)``, which may lie beyond the text."""
        return place + len(self._token_bytes[token] or b"")

    def mask(self, place: int) -> Mask:
        """Return the tokens with which the text may go on from a place; not to be changed.

        Those that reach beyond the text are among them, whatever they spell there. Missing are
        those after which no tokens spell the rest.
        """
        mask = self._masks.get(place)
        if mask is None:
            node = self._trie.find(self.text[place:])
            beyond = [] if node is None else [self._trie.tokens_below(node)]
            parts = [tokens for _, tokens in self.parts(place)]
            allowed = np.concatenate([*beyond, *parts]).astype(np.int64)
            mask = self._masks[place] = mask_of(self._trie.vocabulary_size, allowed)
        return mask

    def parts(self, place: int) -> Iterator[tuple[int, NDArray[np.int32]]]:
        """Yield the tokens that spell a part of the rest, with the place after them.

        Left out are parts after which no tokens spell what is left.
        """
        for end in range(place + 1, len(self.text)):
            node = self._trie.find(self.text[place:end])
            if node is None:
                return
            if self._rests[end] is not None:
                yield end, self._trie.tokens_of(node)
