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
"""Every byte is a token of its own, numbered one higher than itself."""

PIECES = tiny_vocabulary()
"""The bytes and pieces of JSON that cross the places where a recogniser has to decide."""

END = TokenId(0)
"""The token that ends a text, in both."""

_STRUCTURE = frozenset(b'{}[]",:')
_EXPONENT = frozenset(b"eE")


def allows(mask: Mask, token: int) -> bool:
    """Whether a mask holds a token."""
    return bool(int(mask[token >> 5]) >> (token & 31) & 1)


def accepts(start: Matcher, text: bytes) -> bool:
    """Whether the masks let a text through byte by byte, and the end behind it.

    What a mask says and what ``advance`` takes must agree at every byte.
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
    """Those of the tokens that can be taken, each with the position behind it."""
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
    """The first one stands before all tokens, the last one behind them."""


def random_walk(start: Matcher, rng: random.Random, steps: int, budget: int | None = None) -> Walk:
    """A walk that chooses among what the masks allow, and takes the shortest way out in the end.

    With a budget, in tokens, masks within it are asked for until nothing is left of it; the walk
    ends by itself then. At every position there must be a token, or the end.
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
        for token in matcher.shortest_end():
            matcher = matcher.advance(token)
            tokens.append(token)
            matchers.append(matcher)
    assert matcher.is_accepting, f"{tokens} is no end"
    return Walk(tuple(tokens), tuple(matchers))


def _chosen(rng: random.Random, tokens: list[int]) -> int:
    """One of the tokens; those that build structure come up more often than letters.

    Exponents come up seldom, since random ones are beyond what any validator reads.
    """
    structural = [token for token in tokens if token - 1 in _STRUCTURE or token > 256]
    if structural and rng.random() < 0.6:
        return rng.choice(structural)
    plain = [token for token in tokens if token - 1 not in _EXPONENT]
    return rng.choice(plain if plain and rng.random() < 0.95 else tokens)
