"""Walks over masks: along a given text, and at random."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from guided.errors import TokenRejectedError
from guided.masks.mask import Mask, tokens_of
from guided.masks.matcher import Matcher
from guided.spec import TokenId
from tests.kit.tiny_vocabulary import tiny_vocabulary

__all__ = ["BYTES", "END", "PIECES", "Walk", "accepts", "allows", "random_walk", "tried"]

BYTES = tiny_vocabulary(())
"""Every byte is a token, whose number is the byte plus one."""

PIECES = tiny_vocabulary()
"""The bytes, and pieces of JSON that cross the places where a recogniser has to decide."""

END = TokenId(0)
"""The token that ends a text, in both."""

_STRUCTURE = frozenset(b'{}[]",:')
_EXPONENT = frozenset(b"eE")


def allows(mask: Mask, token: int) -> bool:
    """Whether a mask holds a token."""
    return bool(int(mask[token >> 5]) >> (token & 31) & 1)


def accepts(start: Matcher, text: bytes) -> bool:
    """Whether the masks allow a text byte by byte, and the end after it.

    Mask and ``advance`` must agree at every byte.
    """
    matcher = start
    for byte in text:
        token = TokenId(byte + 1)
        allowed = allows(matcher.mask(), token)
        try:
            matcher = matcher.advance(token)
        except TokenRejectedError:
            assert not allowed, f"the mask allows {bytes((byte,))!r}, which is not taken"
            return False
        assert allowed, f"the mask forbids {bytes((byte,))!r}, which is taken"
    ends = allows(matcher.mask(), END)
    assert ends == matcher.is_accepting
    return ends


def tried(matcher: Matcher, tokens: Iterable[int]) -> dict[TokenId, Matcher]:
    """The tokens that can be taken, each with the position after it."""
    taken = {}
    for token in map(TokenId, tokens):
        try:
            taken[token] = matcher.advance(token)
        except TokenRejectedError:
            continue
    return taken


@dataclass(frozen=True, slots=True)
class Walk:
    """A way from the start to an end, and the positions on it."""

    tokens: tuple[TokenId, ...]
    matchers: tuple[Matcher, ...]
    """The positions: the first one before all tokens, the last one after them."""


def random_walk(start: Matcher, rng: random.Random, steps: int, budget: int | None = None) -> Walk:
    """A walk that chooses among the tokens that masks allow, and finally takes the shortest end.

    With a budget, in tokens, it uses masks within the budget until that is used up, and has then
    ended. At every position there must be a token, or the end.
    """
    matcher, tokens, matchers = start, list[TokenId](), [start]
    left = steps if budget is None else budget
    while left and not matcher.is_complete:
        mask = matcher.mask() if budget is None else matcher.mask_within(left)
        choices = tokens_of(mask).tolist()
        assert choices, f"nothing may follow {tokens}"
        assert (END in choices) == matcher.is_accepting, tokens
        token = TokenId(_chosen(rng, choices))
        if token == END:
            break
        matcher, left = matcher.advance(token), left - 1
        tokens.append(token)
        matchers.append(matcher)
    if budget is None:
        for token in matcher.shortest_completion():
            matcher = matcher.advance(token)
            tokens.append(token)
            matchers.append(matcher)
    assert matcher.is_accepting, f"{tokens} is no end"
    return Walk(tuple(tokens), tuple(matchers))


def _chosen(rng: random.Random, tokens: list[int]) -> int:
    """One of the tokens; those that build structure are drawn more often than letters.

    Exponents are drawn rarely, since random ones are beyond what any validator reads.
    """
    structural = [token for token in tokens if token - 1 in _STRUCTURE or token > 256]
    if structural and rng.random() < 0.6:
        return rng.choice(structural)
    plain = [token for token in tokens if token - 1 not in _EXPONENT]
    return rng.choice(plain if plain and rng.random() < 0.95 else tokens)
