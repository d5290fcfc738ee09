"""Spells texts by the rules of a tokenizer, and decides which tokens may stand side by side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from guided.masks.spelling_rules import UNCERTAIN, SpellingRules, Tokens, whole_size
from guided.masks.splitting import Cuts, SplitUncertainError
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

__all__ = ["PieceSpeller", "byte_places"]

_MAX_CACHED_PARTS: Final = 16_384
"""Parts of pieces whose tokens are remembered: mostly quotes and names."""
_MAX_CACHED_PAIRS: Final = 65_536
_NOT_CACHED: Final[Tokens] = (TokenId(-2),)
"""In place of tokens that are not remembered; it is compared by identity."""


class PieceSpeller:
    """Spells for one vocabulary.

    Raises SplitUncertainError if the rules do not say how the tokenizer splits a text. An *added
    token* is one that the tokenizer finds wherever it stands, before it splits the text around it.
    """

    def __init__(self, vocabulary: Vocabulary, rules: SpellingRules) -> None:
        self._vocabulary = vocabulary
        self._rules = rules
        self.added_first_bytes = sorted(
            {text[0] for each in rules.added_tokens for text in each.tokens}
        )
        """The first bytes of added tokens."""
        # Entries follow from their keys and the rules, so any thread may use both caches, and
        # either may be cleared at any time.
        self._part_cache: dict[bytes, Tokens | None] = {}
        """The results of ``_join_part`` by part of a piece."""
        self._pair_cache: dict[tuple[Tokens, TokenId], bool] = {}
        """Whether a token may stand after these tokens."""

    def text(self, token: TokenId) -> bytes:
        """Return the bytes of a token, none for a special one."""
        return self._vocabulary.token_bytes[token] or b""

    def spell(self, text: bytes, start: int) -> Tokens:
        """Return the tokens of a whole text from ``start`` on, at which one of them begins.

        The text must begin and end between characters. May raise SplitUncertainError.
        """
        tokens, rest_start = self.through_last_added_token(text, start)
        return tokens + self._spell_without_added_tokens(
            text[rest_start:], max(start - rest_start, 0)
        )

    def through_last_added_token(self, text: bytes, start: int) -> tuple[Tokens, int]:
        """Return the tokens from ``start`` to the end of the last added token, and that end.

        Returns ((), 0) if the text has no added token. May raise SplitUncertainError.
        """
        tokens: Tokens = ()
        last = 0
        for begin, end, own in self._find_added_tokens(text, start, len(text)):
            tokens += self._spell_without_added_tokens(text[last:begin], max(start - last, 0)) + own
            last = end
        return tokens, last

    def _find_added_tokens(
        self, text: bytes, start: int, end: int, number: int = 0
    ) -> Iterator[tuple[int, int, Tokens]]:
        """Yield begin, end and tokens of each added token in a part of a text, in order.

        Only groups from ``number`` on are looked for. Later groups of added tokens are looked for
        only in what the earlier ones left.
        """
        if number == len(self._rules.added_tokens):
            return
        for first, last, tokens in self._rules.added_tokens[number].find_in(text, start, end):
            yield from self._find_added_tokens(text, start, first, number + 1)
            yield first, last, tokens
            start = last
        yield from self._find_added_tokens(text, start, end, number + 1)

    def _spell_without_added_tokens(self, text: bytes, start: int) -> Tokens:
        """Return the tokens of a text without added tokens, from ``start`` on.

        The text is decoded, so it must begin and end between characters, as added tokens do. If it
        is not known how texts are split, it counts as one piece.

        Empty if ``start`` is at the end or after it.
        """
        if start >= len(text):
            return ()
        splitting = self._rules.splitting
        whole = text.decode()
        cuts = splitting.cuts(whole) if splitting else ()
        return self.spell_pieces(text, (*byte_places(whole, cuts), len(text)), start)

    def spell_pieces(self, text: bytes, cuts: Cuts, start: int) -> Tokens:
        """Return the tokens from a place to the last cut; every piece before that is complete.

        Places are in bytes. If a piece begins before ``start``, only the rest of it is spelled,
        which is right because a token begins at ``start``. May raise SplitUncertainError.

        ``cuts`` ascend; what stands after the last one is left out.
        """
        tokens: Tokens = ()
        begin = 0
        for end in cuts:
            if end > start:
                own = self.whole_piece_token(text[begin:end]) if begin >= start else None
                tokens += own or self._spell_part(text[max(begin, start) : end])
            begin = end
        return tokens

    def whole_piece_token(self, piece: bytes) -> Tokens | None:
        """Return the token that a whole piece is, looked up before any joining."""
        look_up = self._rules.whole_piece_token
        token = None if look_up is None else look_up(piece)
        return None if token is None else (TokenId(token),)

    def spell_beginning(self, part: bytes) -> Tokens:
        """Return the tokens of a part of a piece; the token after them reaches beyond the part.

        If a part ends inside a character and the rules cannot spell it, those of the whole
        characters before. May raise SplitUncertainError.
        """
        joined = self._join_part(part)
        return self._spell_part(part[: whole_size(part)]) if joined is None else joined

    def _spell_part(self, part: bytes) -> Tokens:
        joined = self._join_part(part)
        if joined is None:
            raise SplitUncertainError(part)
        return joined

    def _join_part(self, part: bytes) -> Tokens | None:
        """Return the tokens of a part of a piece; ``None`` if they are not known.

        See ``SpellingRules.join_part``. If the spelling is not certain to the end, UNCERTAIN is the
        last token. ``None`` is remembered like any result; _NOT_CACHED marks a part that is not
        remembered. The cache is asked only once, since other threads may change it at any time.
        """
        cached = self._part_cache.get(part, _NOT_CACHED)
        if cached is _NOT_CACHED:
            tokens = self._rules.join_part(part) if part else ()
            cached = None if tokens is None else tuple(map(TokenId, tokens))
            if len(self._part_cache) >= _MAX_CACHED_PARTS:
                self._part_cache.clear()
            self._part_cache[part] = cached
        return cached

    def may_follow(self, before: Tokens, token: TokenId) -> bool:
        """Return whether a token may stand after another of its piece, or first in a part.

        ``before`` is that other token, or empty. True may be wrong, False never is.
        """
        cached = self._pair_cache.get((before, token))
        if cached is None:
            tokens = (*before, token)
            joined = self._join_part(self._vocabulary.decode(tokens))
            cached = joined is None or joined == tokens or UNCERTAIN in joined
            if len(self._pair_cache) >= _MAX_CACHED_PAIRS:
                self._pair_cache.clear()
            self._pair_cache[before, token] = cached
        return cached


def byte_places(text: str, places: Cuts) -> Cuts:
    """Return the places of a text in its UTF-8.

    ``places`` count characters and are at most ``len(text)``.
    """
    if text.isascii():
        return places
    sizes = list(accumulate([len(character.encode()) for character in text], initial=0))
    return tuple([sizes[place] for place in places])
