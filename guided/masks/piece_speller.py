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

_PARTS: Final = 16_384
"""Parts of pieces whose tokens are remembered: mostly quotes and names."""
_PAIRS: Final = 65_536


class PieceSpeller:
    """Spells for one vocabulary.

    Raises SplitUncertainError if the rules do not say how the tokenizer splits a text. A text
    that *is found* is one that the tokenizer takes for a token wherever it stands, before it splits
    the text around it.
    """

    def __init__(self, vocabulary: Vocabulary, rules: SpellingRules) -> None:
        self._vocabulary = vocabulary
        self._rules = rules
        self.first_found = sorted({text[0] for each in rules.found for text in each.tokens})
        """The first bytes of texts that are found in others."""
        # Both remember only what follows from their keys and the rules, so any thread may use them
        # and either may be cleared at any time.
        self._parts: dict[bytes, Tokens | None] = {}
        """Tokens by part of a piece; ``None`` if they do not make up the whole part."""
        self._pairs: dict[tuple[Tokens, TokenId], bool] = {}
        """Whether a token may stand after these tokens."""

    def text(self, token: TokenId) -> bytes:
        """Return the bytes of a token, none for a special one."""
        return self._vocabulary.token_bytes[token] or b""

    def closed(self, text: bytes, begun: int) -> Tokens:
        """Return the tokens of a whole text from a place on, at which one of them begins.

        The text must begin and end between characters. May raise SplitUncertainError.
        """
        tokens, start = self.found_in(text, begun)
        return tokens + self._rest(text[start:], max(begun - start, 0))

    def found_in(self, text: bytes, begun: int) -> tuple[Tokens, int]:
        """Return the tokens from a place on to the end of the last text found, and that end.

        No tokens and 0 where none is found. May raise SplitUncertainError.
        """
        tokens: Tokens = ()
        last = 0
        for begin, end, own in self._found(text, begun, len(text)):
            tokens += self._rest(text[last:begin], max(begun - last, 0)) + own
            last = end
        return tokens, last

    def _found(
        self, text: bytes, begun: int, end: int, number: int = 0
    ) -> Iterator[tuple[int, int, Tokens]]:
        """Yield what rules from ``number`` on find in a text's part: begin, end, tokens, in order.

        Later rules look only at what the earlier ones leave between their finds.
        """
        if number == len(self._rules.found):
            return
        for first, last, tokens in self._rules.found[number].within(text, begun, end):
            yield from self._found(text, begun, first, number + 1)
            yield first, last, tokens
            begun = last
        yield from self._found(text, begun, end, number + 1)

    def _rest(self, text: bytes, begun: int) -> Tokens:
        """Return the tokens from the place ``begun`` on of a text in which nothing is to be found.

        The text is decoded, so it must begin and end between characters, as what ``_found`` finds
        does. If it is not known how texts are split, it counts as one piece.

        Empty if ``begun`` is at the end or after it.
        """
        if begun >= len(text):
            return ()
        splitting = self._rules.splitting
        whole = text.decode()
        cuts = splitting.cuts(whole) if splitting else ()
        return self.pieces(text, (*byte_places(whole, cuts), len(text)), begun)

    def pieces(self, text: bytes, cuts: Cuts, begun: int) -> Tokens:
        """Return the tokens from a place to the last cut; every piece before that is complete.

        Places are in bytes. If a piece begins before ``begun``, only the rest of it is spelled,
        which is right because a token begins at ``begun``. May raise SplitUncertainError.

        ``cuts`` ascend; what stands after the last one is left out.
        """
        tokens: Tokens = ()
        begin = 0
        for end in cuts:
            if end > begun:
                own = self.whole(text[begin:end]) if begin >= begun else None
                tokens += own or self._told(text[max(begin, begun) : end])
            begin = end
        return tokens

    def whole(self, piece: bytes) -> Tokens | None:
        """Return the token that a whole piece is, looked up before any joining."""
        token = None if self._rules.whole is None else self._rules.whole(piece)
        return None if token is None else (TokenId(token),)

    def beginning(self, part: bytes) -> Tokens:
        """Return the tokens of a part of a piece; the token after them reaches beyond the part.

        If a part ends inside a character and the rules cannot spell it, those of the whole
        characters before. May raise SplitUncertainError.
        """
        joined = self._joined(part)
        return self._told(part[: whole_size(part)]) if joined is None else joined

    def _told(self, part: bytes) -> Tokens:
        joined = self._joined(part)
        if joined is None:
            raise SplitUncertainError(part)
        return joined

    def _joined(self, part: bytes) -> Tokens | None:
        """Return the tokens of a part of a piece; see ``SpellingRules.joined``.

        ``None`` is remembered like any result, so it does not mean that a part is not remembered.
        """
        known = self._parts.get(part)
        if known is None and part not in self._parts:
            tokens = self._rules.joined(part) if part else ()
            known = None if tokens is None else tuple(map(TokenId, tokens))
            if len(self._parts) >= _PARTS:
                self._parts.clear()
            self._parts[part] = known
        return known

    def may_follow(self, before: Tokens, token: TokenId) -> bool:
        """Return whether a token may stand after another of its piece, or first in a part.

        ``before`` is that other token, or empty. True may be wrong, False never is.
        """
        known = self._pairs.get((before, token))
        if known is None:
            tokens = (*before, token)
            joined = self._joined(self._vocabulary.decode(tokens))
            known = joined is None or joined == tokens or UNCERTAIN in joined
            if len(self._pairs) >= _PAIRS:
                self._pairs.clear()
            self._pairs[before, token] = known
        return known


def byte_places(text: str, places: Cuts) -> Cuts:
    """Return the places of a text in its UTF-8.

    ``places`` count characters and are at most ``len(text)``.
    """
    if text.isascii():
        return places
    sizes = list(accumulate([len(character.encode()) for character in text], initial=0))
    return tuple([sizes[place] for place in places])
