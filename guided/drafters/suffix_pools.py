"""Earlier answers by salt and constraint, within a bound on their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from guided.decoding.draft_budget import AcceptanceRates
from guided.drafters.suffix_trie import Context, SuffixTrie
from guided.spec import TokenId

__all__ = ["MAX_BYTES", "ContextKind", "PoolKey", "SuffixPool", "SuffixPools", "kind_of"]

MAX_BYTES: Final = 32 * 2**20
"""Bytes that all earlier answers may take."""
_MAX_SHARE_DIVISOR: Final = 4
"""One constraint may take this part of it: a quarter."""
_POOL_BYTES: Final = 4096
_LENGTHS: Final = (1, 2, 3, 5, 8)
"""Steps by which the length of a context, and how often it was seen, are distinguished."""
_COUNTS: Final = (1, 2, 4)


class PoolKey(NamedTuple):
    """Requests that share answers: those of one salt and one constraint."""

    salt: str
    digest: str
    """The digest of the constraint; empty without one."""


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
"""The initial rates: tokens after a longer context, seen more often, are more certain."""


def kind_of(context: Context) -> ContextKind:
    """Return the kind of a context of at least one token."""
    length = sum([context.length >= least for least in _LENGTHS]) - 1
    return length, sum([context.count >= least for least in _COUNTS]) - 1


class SuffixPool:
    """The answers of one key, and how well they predict the next."""

    __slots__ = ("rates", "trie")

    def __init__(self) -> None:
        self.trie = SuffixTrie()
        self.rates = AcceptanceRates[ContextKind](_ASSUMED)
        """How often what followed a context in an earlier answer followed it again."""

    @property
    def nbytes(self) -> int:
        """The approximate bytes that it takes."""
        return _POOL_BYTES + self.trie.nbytes


class SuffixPools:
    """Pools by key; drops the oldest answers of a pool, and the pool unused longest."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes = most_bytes
        self._pools: dict[PoolKey, SuffixPool] = {}
        """The one used last comes last."""
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """The approximate bytes that all of them take."""
        return self._nbytes

    def __len__(self) -> int:
        return len(self._pools)

    def find(self, key: PoolKey) -> SuffixPool | None:
        """Return the pool of a key, if there are answers."""
        return self._pools.get(key)

    def use(self, key: PoolKey) -> None:
        """Record that a request of this key has come."""
        pool = self._pools.pop(key, None)
        if pool is not None:
            self._pools[key] = pool

    def add(self, key: PoolKey, tokens: Sequence[TokenId]) -> None:
        """Remember an answer, and forget others if there is no room."""
        pool = self._pools.pop(key, None)
        if pool is None:
            pool = SuffixPool()
        else:
            self._nbytes -= pool.nbytes
        pool.trie.add(tokens)
        while len(pool.trie) and pool.nbytes > self._most_bytes // _MAX_SHARE_DIVISOR:
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
            assert pool.nbytes <= self._most_bytes // _MAX_SHARE_DIVISOR, (
                f"{pool.nbytes} in one pool"
            )
            pool.trie.check()
