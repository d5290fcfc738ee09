"""A vocabulary with the structures made from it, once for all constraints."""

from __future__ import annotations

from dataclasses import dataclass

from guided.tokens.cover import TokenCover
from guided.tokens.forced import RunSpeller
from guided.tokens.trie import TokenTrie, trie_from_tokens
from guided.tokens.vocabulary import Vocabulary

__all__ = ["TokenBinding"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenBinding:
    """What binding a recogniser to a vocabulary needs."""

    vocabulary: Vocabulary
    trie: TokenTrie
    cover: TokenCover
    speller: RunSpeller

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> TokenBinding:
        """Build the structures; takes about half a second for 128,000 tokens."""
        tokens = vocabulary.token_bytes
        trie = trie_from_tokens(tokens)
        return cls(vocabulary, trie, TokenCover(tokens), RunSpeller(vocabulary, trie))
