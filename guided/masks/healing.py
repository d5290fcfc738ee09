"""Token healing: an answer whose first tokens may reach back over the end of the prompt.

A tokenizer would seldom end a token where a prompt happens to end, so a model that reads the
prompt's own last tokens sees a text that it has hardly seen in training::

    prompt  see http:      read as  see |http|:          what follows is seldom |//
    healed                          see |http            and then one of |: |:// |:/

The last tokens are taken off the prompt, and the tokens of the answer spell their text again, as
the model likes: in tokens that are a part of it, or that reach beyond it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from guided.errors import TokenRejectedError
from guided.masks.mask import Mask, allows, mask_of, only_token
from guided.masks.matcher import BeforeAnswer, Matcher
from guided.masks.respelling import Respelling
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, TokenId

__all__ = ["HealingMatcher", "OpenEnds"]


class OpenEnds:
    """Finds the last tokens of texts in whose place a vocabulary has longer tokens."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Sort the tokens; takes about 60 ms for 128,000 of them."""
        named = frozenset(vocabulary.named.values())
        self._texts = tuple(
            None if text is None or token in named else read
            for token, (text, read) in enumerate(
                zip(vocabulary.token_bytes, vocabulary.read_as, strict=True)
            )
        )
        """By token its text; ``None`` for one that is special or has a name."""
        self._sorted = sorted([text for text in self._texts if text is not None])
        self._longest = max(map(len, self._sorted), default=0)

    def count(self, tokens: Sequence[TokenId], text: str) -> int:
        """Return how many of the last tokens are open: a longer token begins with their text.

        As many as possible, but never all; ``text`` is what they are within, without a special
        token. They begin with a whole character.
        """
        found, end = 0, b""
        tail = text[-self._longest :].encode()
        for count, token in enumerate(reversed(tokens[1:]), start=1):
            piece = self._texts[token]
            if piece is None or len(end) + len(piece) >= self._longest:
                break
            end = piece + end
            # A tokenizer may change a text before it splits it: then its tokens spell another.
            if not tail.endswith(end):
                break
            if _begins_character(end) and self._is_extended(end):
                found = count
        return found

    def text_of(self, tokens: Sequence[TokenId]) -> str:
        """Return the text of open tokens."""
        return b"".join([self._texts[token] or b"" for token in tokens]).decode()

    def _is_extended(self, text: bytes) -> bool:
        """Whether a longer token begins with a text."""
        after = bisect_right(self._sorted, text)
        return after < len(self._sorted) and self._sorted[after].startswith(text)


def _begins_character(text: bytes) -> bool:
    return text[0] & 0xC0 != 0x80


@dataclass(frozen=True, slots=True)
class HealingMatcher(BeforeAnswer):
    """A position in a text that is spelled again, before the answer itself.

    ::

        respelling  h t t p :          allowed tokens from ``place`` 4:  :  :/  ://
                            │ after
                   inner ───┘ 4        inner allows what is spelled too, and what follows it
    """

    respelling: Respelling
    place: int
    """Bytes that are spelled."""
    inner: Matcher
    """The position after these bytes; it allows the text, among others."""
    after: Matcher
    """The position after the whole text."""

    def mask(self) -> Mask:
        mask: Mask = self.inner.mask() & self.respelling.mask(self.place)
        return mask

    def allows(self, token: TokenId) -> bool:
        return allows(self.respelling.mask(self.place), token) and self.inner.allows(token)

    def advance(self, token: TokenId) -> Matcher:
        if not self.allows(token):
            raise TokenRejectedError(
                f"token {token} is not allowed here: "
                f"{self.respelling.text[self.place :]!r} has to be spelled first",
                token=token,
            )
        inner = self.inner.advance(token)
        place = self.respelling.after(self.place, token)
        if place >= len(self.respelling.text):
            return inner
        return replace(self, place=place, inner=inner)

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        """See ``Matcher``: how the text is spelled is up to the model, where it has a choice.

        No spelling of the tokenizer is forced: that one was taken off the prompt.
        """
        if forcing is Forcing.OFF:
            return ()
        run: list[TokenId] = []
        at: Matcher = self
        while isinstance(at, HealingMatcher):
            token = only_token(at.mask())
            if token is None:
                return tuple(run)
            run.append(TokenId(token))
            at = at.advance(run[-1])
        return (*run, *at.forced_run(forcing))

    def likely_run(self) -> tuple[TokenId, ...]:
        return ()

    def shortest_completion(self) -> tuple[TokenId, ...]:
        return self.respelling.rest(self.place) + self.after.shortest_completion()

    def can_complete_within(self, budget: int) -> bool:
        return self._can_end_from(self.place, budget)

    def mask_within(self, budget: int) -> Mask:
        """See ``Matcher``.

        A token that spells a part of the text leaves the rest to be spelled; one that reaches the
        end of the text is judged by what follows.
        """
        size = 32 * len(self.mask())
        mask: Mask = self.mask() & self.inner.mask_within(budget)
        for end, tokens in self.respelling.parts(self.place):
            if not self._can_end_from(end, budget - 1):
                mask &= ~mask_of(size, tokens.astype(np.int64))
        # Bounds may be too careful: the shortest way on stays in any case.
        mask |= mask_of(size, self.respelling.rest(self.place)[:1])
        return mask

    def _can_end_from(self, place: int, budget: int) -> bool:
        return self.after.can_complete_within(budget - len(self.respelling.rest(place)))
