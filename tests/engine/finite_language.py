"""Constraints small enough to be their own oracle: a finite set of words, or every text.

All results of a matcher are worked out here by trying all words and all tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guided.errors import TokenRejectedError
from guided.masks.vocabulary import Vocabulary
from guided.spec import Forcing, TokenId

END_IDS = frozenset({TokenId(0), TokenId(1)})
MERGES = (
    b'{"',
    b'":',
    b'",',
    b'"}',
    b"ab",
    b"abc",
    b"bc",
    b"cd",
    b"na",
    b"name",
    b"me",
    b"12",
    b"cdna",
)
TOKEN_BYTES: tuple[bytes | None, ...] = (
    None,
    None,
    *(bytes([byte]) for byte in range(256)),
    *MERGES,
)
_IDS = {text: TokenId(i) for i, text in enumerate(TOKEN_BYTES) if text is not None}


def spell(text: str) -> list[int]:
    """The longest token first, then the rest."""
    return [int(token) for token in spell_bytes(text.encode())]


def spell_bytes(text: bytes) -> tuple[TokenId, ...]:
    tokens = []
    while text:
        size = next(n for n in (4, 3, 2, 1) if text[:n] in _IDS and n <= len(text))
        tokens.append(_IDS[text[:size]])
        text = text[size:]
    return tuple(tokens)


def make_vocabulary() -> Vocabulary:
    return Vocabulary(token_bytes=TOKEN_BYTES, end_ids=END_IDS, spell=spell)


def pack(tokens: Iterable[int]) -> NDArray[np.int32]:
    bits = np.zeros((len(TOKEN_BYTES) + 31) // 32 * 32, dtype=np.uint8)
    bits[list(tokens)] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


class WordMatcher:
    """A position in one of a finite set of words."""

    def __init__(self, rests: frozenset[bytes], *, is_careless: bool) -> None:
        assert rests
        self.rests = rests
        """The remainders of the words that may still come."""
        self.is_careless = is_careless
        """Whether its completions are real but arbitrary; the next position may have a longer."""
        self._behind: dict[TokenId, WordMatcher] = {}

    @classmethod
    def of(cls, words: Sequence[str], *, is_careless: bool = False) -> WordMatcher:
        return _state(frozenset(word.encode() for word in words), is_careless)

    @property
    def is_accepting(self) -> bool:
        return b"" in self.rests

    @property
    def is_complete(self) -> bool:
        return self.rests == {b""}

    def legal(self) -> list[TokenId]:
        return self._legal

    @cached_property
    def _legal(self) -> list[TokenId]:
        return [
            token
            for text, token in sorted(_IDS.items(), key=lambda item: item[1])
            if any(rest.startswith(text) for rest in self.rests)
        ]

    def mask(self) -> NDArray[np.int32]:
        return self._mask

    def allows(self, token: TokenId) -> bool:
        return bool(self.mask()[token >> 5] >> (token & 31) & 1)

    @cached_property
    def _mask(self) -> NDArray[np.int32]:
        return pack([*self.legal(), *(END_IDS if self.is_accepting else ())])

    def advance(self, token: TokenId) -> WordMatcher:
        if token not in self._behind:
            self._behind[token] = self._advance(token)
        return self._behind[token]

    def _advance(self, token: TokenId) -> WordMatcher:
        assert token not in END_IDS
        text = TOKEN_BYTES[token]
        assert text is not None
        rests = frozenset(rest[len(text) :] for rest in self.rests if rest.startswith(text))
        if not rests:
            raise TokenRejectedError(f"token {token} is not allowed here", token=token)
        return _state(rests, self.is_careless)

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        if forcing is Forcing.STRICT:
            return self._singletons()
        if forcing is Forcing.CANONICAL:
            return self._canonical()
        return ()

    def likely_run(self) -> tuple[TokenId, ...]:
        return spell_bytes(self._certain_bytes())

    def shortest_completion(self) -> tuple[TokenId, ...]:
        if self.is_careless and not self.is_accepting:
            rests = sorted(self.rests)
            rest = rests[sum(map(sum, rests)) % len(rests)]
            return spell_bytes(rest) if len(rest) % 2 else _shortest_spelling(rest)
        return min((_shortest_spelling(rest) for rest in self.rests), key=lambda t: (len(t), t))

    def can_complete_within(self, budget: int) -> bool:
        return len(self.shortest_completion()) <= budget

    def mask_within(self, budget: int) -> NDArray[np.int32]:
        fitting = [t for t in self.legal() if self.advance(t).can_complete_within(budget - 1)]
        return pack(
            [*fitting, *self.shortest_completion()[:1], *(END_IDS if self.is_accepting else ())]
        )

    def _singletons(self) -> tuple[TokenId, ...]:
        run: list[TokenId] = []
        here = self
        while not here.is_accepting and len(legal := here.legal()) == 1:
            run.append(legal[0])
            here = here.advance(legal[0])
        return tuple(run)

    def _canonical(self) -> tuple[TokenId, ...]:
        run = list(spell_bytes(self._certain_bytes()))
        # A token that reaches over the end of the certain bytes could still swallow the last one.
        while run and self._may_merge(run):
            run.pop()
        return tuple(run)

    def _certain_bytes(self) -> bytes:
        words = sorted(self.rests)
        first, last = words[0], words[-1]
        size = next(
            (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
        )
        return first[:size]

    def _may_merge(self, run: list[TokenId]) -> bool:
        before = self
        for token in run[:-1]:
            before = before.advance(token)
        tail = TOKEN_BYTES[run[-1]]
        assert tail is not None
        texts = [TOKEN_BYTES[token] or b"" for token in before.legal()]
        return any(len(text) > len(tail) and text.startswith(tail) for text in texts)


class AnythingMatcher:
    """Every text, which never has to end."""

    is_accepting = True
    is_complete = False

    def mask(self) -> NDArray[np.int32]:
        return pack(range(len(TOKEN_BYTES)))

    def allows(self, token: TokenId) -> bool:
        return 0 <= token < len(TOKEN_BYTES)

    def advance(self, token: TokenId) -> AnythingMatcher:
        assert token not in END_IDS
        return self

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:  # noqa: ARG002
        return ()

    def likely_run(self) -> tuple[TokenId, ...]:
        return ()

    def shortest_completion(self) -> tuple[TokenId, ...]:
        return ()

    def can_complete_within(self, budget: int) -> bool:
        return budget >= 0

    def mask_within(self, budget: int) -> NDArray[np.int32]:  # noqa: ARG002
        return self.mask()


@cache
def _state(rests: frozenset[bytes], is_careless: bool) -> WordMatcher:
    return WordMatcher(rests, is_careless=is_careless)


@cache
def _shortest_spelling(text: bytes) -> tuple[TokenId, ...]:
    best: list[tuple[TokenId, ...] | None] = [None] * len(text) + [()]
    for start in range(len(text) - 1, -1, -1):
        ways: list[tuple[Any, ...]] = []
        for size in (1, 2, 3, 4):
            rest = best[start + size] if start + size <= len(text) else None
            if rest is not None and text[start : start + size] in _IDS:
                ways.append((_IDS[text[start : start + size]], *rest))
        best[start] = min(ways, key=lambda t: (len(t), t))
    answer = best[0]
    assert answer is not None
    return answer
