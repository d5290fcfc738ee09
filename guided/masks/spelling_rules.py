"""The rules by which a tokenizer spells, as far as forced runs have to know them.

A tokenizer first finds *added tokens* in a text, splits the text between them into *pieces* (pre-
tokenization), and joins every piece from tokens separately. Of joining only this is relied on: what
a piece becomes up to the end of one of its tokens, that beginning becomes alone, and the rest too.
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


class AddedTokens:
    """Added tokens: those that a tokenizer finds in a text before it splits the text into pieces.

    Of those that begin in one place it takes the longest. There is at least one, and none is empty.
    """

    def __init__(self, tokens: Mapping[bytes, tuple[TokenId, ...]]) -> None:
        self.tokens = tokens
        firsts = sorted({text[:1] for text in tokens})
        # Finds the places where one may begin; there the lengths are tried, longest first.
        self._first = re.compile(b"[" + b"".join(map(re.escape, firsts)) + b"]")
        self._sizes = sorted({len(text) for text in tokens}, reverse=True)

    def find_in(
        self, text: bytes, start: int, end: int
    ) -> Iterator[tuple[int, int, tuple[TokenId, ...]]]:
        """Yield begin, end and tokens of each added token within a part of a text, in order.

        The part is ``text[start:end]``; places are in ``text``. They do not overlap: the search
        continues where the last one ends.
        """
        while (match := self._first.search(text, start, end)) is not None:
            at = match.start()
            start = at + 1
            for size in self._sizes:
                tokens = self.tokens.get(text[at : at + size]) if at + size <= end else None
                if tokens is not None:
                    start = at + size
                    yield at, start, tokens
                    break


class SpellingRules:
    """The rules of one tokenizer: added tokens, splitting into pieces, joining of each piece."""

    def __init__(
        self,
        splitting: Splitting | None,
        join_part: Callable[[bytes], Sequence[int] | None],
        *,
        added_tokens: Sequence[Mapping[bytes, Tokens]] = (),
        whole_piece_token: Callable[[bytes], int | None] | None = None,
        space_letter: bytes = b"",
    ) -> None:
        self.splitting = splitting
        """How texts are split into pieces, ``None`` if that is not known."""
        self.join_part = join_part
        """Returns the tokens of a part of a piece at both ends of which a token begins or ends.

        ``None`` if the part begins or ends inside a character and its tokens are not known.
        """
        self.added_tokens = [AddedTokens(tokens) for tokens in added_tokens if tokens]
        """The added tokens, in groups: each group is looked for in what the ones before it left."""
        self.whole_piece_token = whole_piece_token
        """Returns the token that a whole piece is, whatever ``join_part`` makes of it."""
        self.space_letter = space_letter
        """What the tokenizer writes for a space; empty if it writes a space as it is. Where a text
        contains the letter itself, it is found like an added token, but has several tokens."""
        self.added_token_ids = [
            tokens[0] for texts in added_tokens for tokens in texts.values() if len(tokens) == 1
        ]

    def without(self, removed: frozenset[TokenId]) -> SpellingRules:
        """Return the rules of the same tokenizer if the tokens ``removed`` stand for no text.

        Where the parts of a piece are joined to one of them, the spelling is uncertain from there
        on, as other joins may have gone through it; a whole piece that is one is joined from parts.

        These rules are left as they are. The result does not find these tokens in a text, so it may
        split differently there.
        """
        join_part, whole_piece_token = self.join_part, self.whole_piece_token

        def join_without(text: bytes) -> Sequence[int] | None:
            tokens = join_part(text)
            if tokens is None:
                return None
            at = next((place for place, token in enumerate(tokens) if token in removed), None)
            return tokens if at is None else [*tokens[:at], UNCERTAIN]

        def whole_without(piece: bytes) -> int | None:
            token = None if whole_piece_token is None else whole_piece_token(piece)
            return None if token in removed else token

        kept = [
            {text: tokens for text, tokens in texts.tokens.items() if not removed & {*tokens}}
            for texts in self.added_tokens
        ]
        return SpellingRules(
            self.splitting,
            join_without,
            added_tokens=kept,
            whole_piece_token=None if whole_piece_token is None else whole_without,
            space_letter=self.space_letter,
        )


def plain_rules(vocabulary: Vocabulary) -> SpellingRules:
    """Return the rules of a vocabulary that defines only how it spells.

    Its speller may know texts of tokens that are special for a constraint, as
    ``Vocabulary.with_named_as_special`` makes them.
    """
    special = [token for token, text in enumerate(vocabulary.token_bytes) if text is None]

    def join_part(text: bytes) -> Sequence[int] | None:
        try:
            return vocabulary.spell(text.decode())
        except UnicodeDecodeError:
            return None

    return SpellingRules(Splitting(()), join_part).without(frozenset(map(TokenId, special)))


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
