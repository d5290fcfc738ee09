"""How many tokens fit into how much memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from guided.engine.room import cache_groups
from guided.errors import RequestError
from guided.kv.block_cache import LayerGroup
from guided.kv.layer_groups import LayerShape, slot_bytes, window_groups

__all__ = ["CacheRequest", "CacheSize"]


@dataclass(frozen=True, slots=True)
class CacheSize:
    """What the size of a cache follows from, besides the tokens that all requests may hold."""

    windows: tuple[int | None, ...]
    """By group of layers."""
    slot_bytes: tuple[int, ...]
    """What one token takes, by group."""
    block_size: int
    max_batch: int
    step_tokens: int
    widest_draft: int

    @property
    def bytes_per_token(self) -> int:
        """What one token takes in all layers, as long as they all see it."""
        return sum(self.slot_bytes)

    def nbytes(self, cache_tokens: int) -> int:
        """Memory that a cache of so many tokens takes; layers with a window stop growing."""
        return sum(
            group.num_blocks * self.block_size * of_slot
            for group, of_slot in zip(self.groups(cache_tokens), self.slot_bytes, strict=True)
        )

    def tokens_within(self, nbytes: int, most: int) -> int:
        """The most tokens, ``most`` or fewer, whose cache takes no more memory; 0 if none does."""
        fits, too_many = 0, most + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self.nbytes(middle) <= nbytes:
                fits = middle
            else:
                too_many = middle
        return fits

    def groups(self, cache_tokens: int) -> list[LayerGroup]:
        """The blocks of each group, see ``cache_groups``."""
        return cache_groups(
            self.windows,
            cache_tokens=cache_tokens,
            block_size=self.block_size,
            max_batch=self.max_batch,
            step_tokens=self.step_tokens,
            widest_draft=self.widest_draft,
        )


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """What was asked of the cache, and what the engine is going to do with it."""

    cache_tokens: int | None = None
    """Tokens that all running requests may hold."""
    kv_memory: int | None = None
    """Bytes for them instead; neither leaves the choice to us."""
    is_quantised: bool = False
    """Keep int8, with a scale for each token and head."""
    block_size: int = 8
    max_batch: int = 16
    step_tokens: int = 512
    widest_draft: int = 0

    def __post_init__(self) -> None:
        if self.cache_tokens is not None and self.cache_tokens < 1:
            raise RequestError(
                f"cache_tokens {self.cache_tokens!r} leave no room for a request",
                field="cache_tokens",
            )
        if self.cache_tokens is not None and self.kv_memory is not None:
            raise RequestError(
                "cache_tokens and kv_memory both say how large the cache is",
                field="kv_memory",
                hint="give one of them",
            )

    def size(
        self, layers: Sequence[LayerShape], windows: Sequence[int | None], dtype: torch.dtype
    ) -> CacheSize:
        """How a cache of these layers grows."""
        return CacheSize(
            window_groups(windows),
            slot_bytes(layers, windows, dtype, is_quantised=self.is_quantised),
            block_size=self.block_size,
            max_batch=self.max_batch,
            step_tokens=self.step_tokens,
            widest_draft=self.widest_draft,
        )
