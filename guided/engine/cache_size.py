"""The size of the key/value cache: the blocks of each group of layers, and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from guided.errors import RequestError
from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.layer_groups import LayerShape, bytes_per_slot_by_group, window_groups
from guided.model.parallel.split import Split
from guided.model.runner import ModelRunner

__all__ = ["CacheRequest", "CacheSize", "StepLimits", "cache_groups", "open_cache"]


_LIMITS = {"cpu": (16, 512), "cuda": (64, 2048)}
"""The default ``max_batch`` and ``step_tokens``, by type of device."""


@dataclass(frozen=True, slots=True)
class StepLimits:
    """The most that one step of an engine computes, and the unit in which it keeps rows."""

    max_batch: int = 16
    """Answers that run at once."""
    step_tokens: int = 512
    """Certain tokens of one step, all answers together."""
    block_size: int = 8
    """Slots of a block of the cache."""
    widest_draft: int = 0
    """Tokens drafted for one answer in one step, at most."""

    def __post_init__(self) -> None:
        if self.step_tokens < 1:
            raise RequestError(f"step_tokens {self.step_tokens!r} is below 1", field="step_tokens")
        # Every running answer gets a token of each step, see ``share_tokens``.
        if not 1 <= self.max_batch <= self.step_tokens:
            raise RequestError(
                f"max_batch {self.max_batch!r} is not between 1 and step_tokens "
                f"({self.step_tokens})",
                field="max_batch",
            )

    @property
    def remembered_states(self) -> int:
        """The number of beginnings of texts for which the state of recurrent layers is kept.

        As many as answers run, because each answer may be continued by a later request.
        """
        return self.max_batch

    def states_nbytes(self, of_text: int, of_drafted: int) -> int:
        """Return the bytes of recurrent layers, given those of a text and of a drafted token."""
        # A call makes the next state of each answer and one to be remembered, while the previous
        # state still exists.
        texts = 3 * self.max_batch + self.remembered_states
        return texts * of_text + self.max_batch * self.widest_draft * of_drafted

    @classmethod
    def for_device(
        cls,
        device: torch.device,
        max_batch: int | None = None,
        step_tokens: int | None = None,
        *,
        widest_draft: int = 0,
    ) -> StepLimits:
        """Return the limits requested; ``None`` takes the default of the device.

        A few answers keep a core busy, so that more at once only wait for each other; a GPU reads
        its weights for 64 answers in the time of one.
        """
        answers, tokens = _LIMITS.get(device.type, _LIMITS["cpu"])
        tokens = tokens if step_tokens is None else step_tokens
        # A smaller step lowers the default number of answers with it.
        answers = min(answers, max(tokens, 1)) if max_batch is None else max_batch
        return cls(answers, tokens, widest_draft=widest_draft)


def cache_groups(
    windows: Sequence[int | None], cache_tokens: int, limits: StepLimits
) -> list[LayerGroup]:
    """Return the blocks of each group of layers that hold ``cache_tokens``, rounded up.

    Layers with a window get no more than a full batch can have in sight.
    """
    size, batch = limits.block_size, limits.max_batch
    everything = -(-cache_tokens // size)
    groups = []
    # Layers with a window release blocks as texts grow, so they need fewer for the same tokens.
    for window in windows:
        blocks = everything
        if window is not None:
            in_sight = batch * (window + limits.widest_draft) + limits.step_tokens
            # What a sequence has in sight may begin and end inside a block.
            blocks = min(everything, -(-in_sight // size) + 2 * batch)
        groups.append(LayerGroup(blocks, window))
    return groups


def open_cache(
    runner: ModelRunner, cache_tokens: int, limits: StepLimits, *, reuse_prefixes: bool
) -> BlockCache:
    """Open the cache of an engine, with storage for its slots in the model."""
    _check_tokens(cache_tokens)
    groups = cache_groups(runner.windows, cache_tokens, limits)
    cache = BlockCache(
        groups,
        limits.block_size,
        reuse_prefixes=reuse_prefixes,
        num_states=limits.remembered_states if runner.shape.mixers else None,
    )
    runner.open_storages([pool.num_slots for pool in cache.pools])
    return cache


@dataclass(frozen=True, slots=True)
class CacheSize:
    """How a cache grows with the number of tokens that all requests together may hold."""

    windows: tuple[int | None, ...]
    """One for each group of layers."""
    slot_bytes: tuple[int, ...]
    """Bytes of one token, one for each group."""
    limits: StepLimits

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token in all layers, as long as all of them see it."""
        return sum(self.slot_bytes)

    def nbytes(self, cache_tokens: int) -> int:
        """Return the bytes of a cache for these tokens; layers with a window stop growing."""
        groups = cache_groups(self.windows, cache_tokens, self.limits)
        return sum(
            group.num_blocks * self.limits.block_size * of_slot
            for group, of_slot in zip(groups, self.slot_bytes, strict=True)
        )

    def tokens_within(self, nbytes: int, most: int) -> int:
        """Return the most tokens, up to ``most``, whose cache fits these bytes; 0 if none does."""
        # More tokens never take less memory, so bisection finds the limit.
        fits, too_many = 0, most + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self.nbytes(middle) <= nbytes:
                fits = middle
            else:
                too_many = middle
        return fits


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """The size of cache that was requested, and the limits of its steps."""

    cache_tokens: int | None = None
    """Tokens that all running requests may hold."""
    kv_memory: int | None = None
    """The bytes for them instead; where neither is given, the memory plan chooses."""
    is_quantised: bool = False
    """Whether keys and values are int8, with a scale for each token and head."""
    limits: StepLimits = field(default_factory=StepLimits)
    split: Split = field(default_factory=Split)
    """The processes that the model is split over, each with a share of keys and values."""

    @property
    def by_transformers(self) -> bool:
        """Whether only the forward pass of transformers will do."""
        return self.is_quantised or self.split.ranks > 1

    def __post_init__(self) -> None:
        if self.cache_tokens is not None:
            _check_tokens(self.cache_tokens)
        if self.cache_tokens is not None and self.kv_memory is not None:
            raise RequestError(
                "cache_tokens and kv_memory both say how large the cache is",
                field="kv_memory",
                hint="give one of them",
            )

    def size(
        self, layers: Sequence[LayerShape], windows: Sequence[int | None], dtype: torch.dtype
    ) -> CacheSize:
        """Return how a cache of these layers grows."""
        of_slot = bytes_per_slot_by_group(layers, windows, dtype, is_quantised=self.is_quantised)
        return CacheSize(window_groups(windows), of_slot, self.limits)


def _check_tokens(cache_tokens: int) -> None:
    if cache_tokens < 1:
        raise RequestError(
            f"cache_tokens {cache_tokens!r} leave no room for a request", field="cache_tokens"
        )
