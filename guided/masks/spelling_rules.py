"""The rules by which a tokenizer spells, as far as forced runs have to know them.

A text is cut three times. Texts that are whole tokens are found in it first; the text between them
is split into pieces; and every piece is put together from tokens separately. The last of these only
has to promise this: what it makes of a text up to the end of one of its tokens, it makes of that
beginning alone, and what it makes of the rest, of the rest alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from guided.masks.splitting import Splitting
from guided.masks.vocabulary import Vocabulary
from guided.spec import TokenId

__all__ = ["UNCERTAIN", "SpellingRules", "Tokens", "plain_rules", "whole_size"]

Tokens: TypeAlias = tuple[TokenId, ...]

UNCERTAIN: Final = TokenId(-1)
"""In place of the tokens after which a spelling depends on more than its text."""


class FoundTexts:
    """Texts that a tokenizer finds in a text before anything else, and takes for tokens.

    Of those that begin in one place it takes the longest. There is at least one, and none is empty.
    """

    def __init__(self, tokens: Mapping[bytes, tuple[TokenId, ...]]) -> None:
        self.tokens = tokens
        firsts = sorted({text[:1] for text in tokens})
        # Finds the places where one may begin; there the lengths are tried, longest first.
        self._first = re.compile(b"[" + b"".join(map(re.escape, firsts)) + b"]")
        self._sizes = sorted({len(text) for text in tokens}, reverse=True)

    def within(
        self, text: bytes, begun: int, end: int
    ) -> Iterator[tuple[int, int, tuple[TokenId, ...]]]:
        """Yield where the found texts within a part begin and end, with their tokens, in order.

        The part is ``text[begun:end]``; places are in ``text``. They do not overlap: the search
        continues where the last one ends.
        """
        while (match := self._first.search(text, begun, end)) is not None:
            at = match.start()
            begun = at + 1
            for size in self._sizes:
                tokens = self.tokens.get(text[at : at + size]) if at + size <= end else None
                if tokens is not None:
                    begun = at + size
                    yield at, begun, tokens
                    break


class SpellingRules:
    """The rules of one tokenizer."""

    def __init__(
        self,
        splitting: Splitting | None,
        joined: Callable[[bytes], Sequence[int] | None],
        *,
        found: Sequence[Mapping[bytes, Tokens]] = (),
        whole: Callable[[bytes], int | None] | None = None,
        letter: bytes = b"",
    ) -> None:
        self.splitting = splitting
        """How texts are split into pieces, ``None`` if that is not known."""
        self.joined = joined
        """The tokens of a part of a piece that begins and ends with one of them.

        ``None`` if the part begins or ends inside a character and its tokens are not known.
        """
        self.found = [FoundTexts(tokens) for tokens in found if tokens]
        """What is found before anything else, one mapping after the other in what is left."""
        self.whole = whole
        """The token that a whole piece is, whatever ``joined`` makes of it."""
        self.letter = letter
        """A text that is found and is not one token; empty for none."""
        self.found_tokens = [
            tokens[0] for texts in found for tokens in texts.values() if len(tokens) == 1
        ]

    def without(self, apart: frozenset[TokenId]) -> SpellingRules:
        """Return the rules of the same tokenizer if the tokens ``apart`` stand for no text.

        What it would have spelled with one of them is uncertain from there on.

        These rules are left as they are. The result has no text that is found by one of the tokens,
        so it may split differently there.
        """
        joined, whole = self.joined, self.whole

        def joined_without(text: bytes) -> Sequence[int] | None:
            tokens = joined(text)
            if tokens is None or not any(token in apart for token in tokens):
                return tokens
            at = next(place for place, token in enumerate(tokens) if token in apart)
            return [*tokens[:at], UNCERTAIN]

        def whole_without(piece: bytes) -> int | None:
            token = None if whole is None else whole(piece)
            return None if token in apart else token

        kept = [
            {text: found for text, found in texts.tokens.items() if not apart & {*found}}
            for texts in self.found
        ]
        return SpellingRules(
            self.splitting,
            joined_without,
            found=kept,
            whole=None if whole is None else whole_without,
            letter=self.letter,
        )


def plain_rules(vocabulary: Vocabulary) -> SpellingRules:
    """Return the rules of a vocabulary that defines only how it spells."""

    def joined(text: bytes) -> Sequence[int] | None:
        try:
            return vocabulary.spell(text.decode())
        except UnicodeDecodeError:
            return None

    return SpellingRules(Splitting(()), joined)


def whole_size(text: bytes) -> int:
    """Return the length of a text without a character that is cut off at its end.

    Looks only at the last three bytes, as an unfinished character has at most three; the text must
    be UTF-8 up to there.
    """
    size = len(text)
    for back in range(1, min(size, 3) + 1):
        byte = text[size - back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return size - back if back < length else size
    return size
