"""A vocabulary with the structures made from it, once for all constraints."""

from __future__ import annotations

from dataclasses import dataclass

from guided.masks.blank import blank_mask
from guided.masks.forced import RunSpeller
from guided.masks.inner import InnerMask, InnerMasks
from guided.masks.scratch import Scratch
from guided.masks.texts import TokenTexts
from guided.masks.trie import TokenTrie, trie_from_tokens
from guided.masks.vocabulary import Vocabulary

__all__ = ["TokenBinding"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenBinding:
    """What binding a recogniser to a vocabulary needs."""

    vocabulary: Vocabulary
    trie: TokenTrie
    texts: TokenTexts
    inner: InnerMasks
    blank: InnerMask
    scratch: Scratch
    speller: RunSpeller

    @classmethod
    def of(cls, vocabulary: Vocabulary, max_inner_bytes: int = 64 * 2**20) -> TokenBinding:
        """Build the structures; takes about half a second for 128,000 tokens."""
        tokens = vocabulary.token_bytes
        trie = trie_from_tokens(tokens)
        return cls(
            vocabulary,
            trie,
            TokenTexts.of(tokens),
            InnerMasks(trie, max_inner_bytes),
            blank_mask(trie),
            Scratch(trie),
            RunSpeller(vocabulary, trie),
        )
