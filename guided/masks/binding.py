"""A vocabulary with the structures made from it once for all constraints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from guided.masks.forced import RunSpeller
from guided.masks.independent import IndependentMasks
from guided.masks.packed import Scratch
from guided.masks.trie import TokenTrie, trie_from_tokens
from guided.masks.vocabulary import TokenTexts, Vocabulary
from guided.runtime.per_thread import PerThread

__all__ = ["TokenBinding"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenBinding:
    """What binding a machine to a vocabulary needs.

    All parts are made from the tokens of ``vocabulary`` as they are read. Masks and scratch memory
    number nodes as ``trie`` does, so the parts of two bindings must not be mixed.
    """

    vocabulary: Vocabulary
    trie: TokenTrie
    texts: TokenTexts
    independent: IndependentMasks
    scratch: PerThread[Scratch]
    speller: RunSpeller
    max_string_start: int
    """See ``RecognizerLimits``."""

    @classmethod
    def of(cls, vocabulary: Vocabulary, max_independent_bytes: int = 64 * 2**20) -> TokenBinding:
        """Build the structures; takes about half a second for 128,000 tokens.

        ``max_independent_bytes`` bounds the masks that ``independent`` keeps.
        """
        tokens = vocabulary.read_as
        trie = trie_from_tokens(tokens)
        return cls(
            vocabulary,
            trie,
            TokenTexts.of(tokens),
            IndependentMasks(trie, max_independent_bytes),
            PerThread(partial(Scratch, trie)),
            RunSpeller(vocabulary, trie),
            _max_string_start(tokens),
        )


def _max_string_start(tokens: Iterable[bytes | None]) -> int:
    """Return the most bytes that a token has after its second quote."""
    rests = [text.split(b'"', 2)[2] for text in tokens if text and text.count(b'"') > 1]
    return max(map(len, rests), default=0)
