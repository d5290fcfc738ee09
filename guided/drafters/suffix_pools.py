"""Earlier answers by salt and constraint, within a bound on their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from guided.decoding.draft_budget import AcceptanceRates
from guided.drafters.suffix_trie import Context, SuffixTrie
from guided.spec import TokenId

__all__ = ["MOST_BYTES", "ContextKind", "PoolKey", "SuffixPool", "SuffixPools", "kind_of"]

MOST_BYTES: Final = 32 * 2**20
"""Memory that earlier answers take in all."""
_LARGEST_SHARE: Final = 4
"""One constraint may take this part of it: a quarter."""
_POOL_BYTES: Final = 4096
_LENGTHS: Final = (1, 2, 3, 5, 8)
"""Lengths of a context that are told apart, and how often it was seen."""
_COUNTS: Final = (1, 2, 4)


class PoolKey(NamedTuple):
    """Who shares answers: requests of one salt and one constraint."""

    salt: str
    digest: str
    """Of the constraint; empty where there is none."""


ContextKind: TypeAlias = tuple[int, int]
"""How long a context is, and how often it was seen, each by steps."""

_ASSUMED_OF_LENGTH: Final = (0.3, 0.4, 0.5, 0.6, 0.7)
_ASSUMED_OF_COUNT: Final = (0.8, 0.9, 1.0)
_ASSUMED: Final[Mapping[ContextKind, float]] = MappingProxyType(
    {
        (length, count): of_length * of_count
        for length, of_length in enumerate(_ASSUMED_OF_LENGTH)
        for count, of_count in enumerate(_ASSUMED_OF_COUNT)
    }
)
"""Where rates start from: what follows a longer context, seen more often, is more certain."""


def kind_of(context: Context) -> ContextKind:
    """The kind of a context of at least one token."""
    length = sum([context.length >= least for least in _LENGTHS]) - 1
    return length, sum([context.count >= least for least in _COUNTS]) - 1


class SuffixPool:
    """The answers of one key, and how far they foretell the next."""

    __slots__ = ("rates", "trie")

    def __init__(self) -> None:
        self.trie = SuffixTrie()
        self.rates = AcceptanceRates[ContextKind](_ASSUMED)
        """How often what followed a context in an earlier answer followed it again."""

    @property
    def nbytes(self) -> int:
        """Memory that it takes, about."""
        return _POOL_BYTES + self.trie.nbytes


class SuffixPools:
    """Pools by key; of a pool the oldest answers go first, of the pools the one unused longest."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._pools: dict[PoolKey, SuffixPool] = {}
        """The one that was used last is the last."""
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Memory that all of them take, about."""
        return self._nbytes

    def __len__(self) -> int:
        return len(self._pools)

    def find(self, key: PoolKey) -> SuffixPool | None:
        """The pool of a key, if there are answers."""
        return self._pools.get(key)

    def use(self, key: PoolKey) -> None:
        """Take note that a request of this key has come."""
        pool = self._pools.pop(key, None)
        if pool is not None:
            self._pools[key] = pool

    def add(self, key: PoolKey, tokens: Sequence[TokenId]) -> None:
        """Remember an answer, and forget others as far as there is no room."""
        pool = self._pools.pop(key, None)
        if pool is None:
            pool = SuffixPool()
        else:
            self._nbytes -= pool.nbytes
        pool.trie.add(tokens)
        while len(pool.trie) and pool.nbytes > self._most_bytes // _LARGEST_SHARE:
            pool.trie.forget_oldest()
        # A text that alone is too large leaves nothing.
        if len(pool.trie):
            self._pools[key] = pool
            self._nbytes += pool.nbytes
        while self._nbytes > self._most_bytes:
            unused = next(iter(self._pools))
            self._nbytes -= self._pools.pop(unused).nbytes

    def check(self) -> None:
        """Raise unless the books add up and all is within the bounds."""
        assert self._nbytes == sum(pool.nbytes for pool in self._pools.values())
        assert self._nbytes <= self._most_bytes, f"{self._nbytes} of {self._most_bytes} bytes"
        for pool in self._pools.values():
            assert len(pool.trie), "a pool without answers"
            assert pool.nbytes <= self._most_bytes // _LARGEST_SHARE, f"{pool.nbytes} in one pool"
            pool.trie.check()
