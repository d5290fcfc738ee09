"""Plans the memory of a model before any of it is taken, and refuses a model that takes too much.

free ─┬─ weights   numbers in the files, in the format they are computed in
      ├─ working   the engine's own tables, and the rows of one model call
      ├─ extra     draft models, heads and adapters, with their caches
      ├─ states    what recurrent layers keep of texts
      └─ cache     keys and values: the size requested, else at most half of the rest
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from guided.engine.cache_size import CacheRequest, CacheSize
from guided.engine.formats import compute_dtype
from guided.errors import ModelError, RequestError
from guided.model.cpu import stored_nbytes
from guided.model.device import CPU
from guided.model.free_memory import free_memory, size_text
from guided.model.layer_configs import inner_size, is_recurrent
from guided.model.model_files import ModelFiles, read_config
from guided.model.parallel.pipeline_plan import PipelinePlan, pipeline_plan
from guided.model.parallel.split import Parallelism, Split
from guided.model.parallel.tensor_plan import TensorPlan, tensor_plan
from guided.model.plain_config import PlainConfig
from guided.model.recurrent import plan_states

__all__ = ["TABLES", "Footprint", "MemoryPlan", "measure_footprint", "plan_memory", "plan_model"]

_MAX_CACHE_TOKENS = 16384
"""The largest cache that is chosen if the settings name no size."""
_MIN_CACHE_TOKENS = 1024
"""The smallest such cache, unless the context window is smaller."""
_SHARE = 0.5
"""The share of free memory, after weights and working memory, that such a cache takes."""
TABLES = 300 * 2**20
"""Tables of the vocabulary, masks, machine code, and buffers of the libraries: about as much as
the default model took on the CPU. On CUDA the tables lie elsewhere, and buffers are larger."""
_LOGITS_ROWS = 128
"""Choices in the widest usual call."""
_ROWS_OF_GRAPHS = 256
"""The choices that the graphs of a CUDA device have memory for (``guided.model.cuda_graphs``)."""
_ACTIVATIONS = 8
"""Rows of hidden size that a layer has at once, besides two rows of its inner size."""
_FLOAT = 4
_BYTES = {"int8": 1, "int4": 0.625}
"""Bytes of a number in a matrix, its share of scales included."""
_HEAD_OF_INT4 = 1.0625
"""Bytes of a number in the head, its share of scales included."""
_SplitPlan = TensorPlan | PipelinePlan


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes of a model without its cache, by its config and the headers of its files."""

    weights: int
    weight_format: str
    cache_dtype: torch.dtype
    """The type in which keys and values are computed."""
    working: int
    free: int
    device: torch.device
    """The device whose memory all of it takes."""
    context_window: int
    extra_nbytes: int = 0
    """Bytes of draft models, heads and adapters, with their caches."""
    states: int = 0
    """Bytes that recurrent layers keep of all texts at once."""
    bytes_per_call: int = 0
    """Weights that every model call reads: all matrices once, without rows that are looked up."""
    split: _SplitPlan | None = None
    """How the model is split over ranks; all bytes are then the most of any one rank."""
    weights_by_rank: tuple[int, ...] = ()

    @property
    def needed(self) -> int:
        """Bytes in all."""
        return self.weights + self.working + self.extra_nbytes + self.states


def measure_footprint(
    files: ModelFiles,
    dtype: str | None,
    cache_request: CacheRequest,
    device: torch.device,
    *,
    extra_nbytes: int = 0,
) -> Footprint:
    """Measure what ``files`` take in a format of weights; ``None`` is the engine's own choice."""
    loaded = compute_dtype(files, dtype, device, by_transformers=cache_request.by_transformers)
    chosen = _format_name(files, dtype, loaded)
    config = files.config.get_text_config()
    hidden, vocabulary = int(config.hidden_size), int(config.vocab_size)
    numbers = files.checkpoint.numbers
    is_packed = device.type == "cpu" and cache_request.split.ranks == 1
    if is_packed and getattr(files.config, "tie_word_embeddings", False):
        # Rows are looked up in one copy, the other is packed for products.
        numbers += vocabulary * hidden
    # The embedding is looked up by rows, so it keeps its format even if matrices are int8.
    embedding = vocabulary * hidden
    packed, packed_nbytes = files.checkpoint.packed  # stay as they are
    floats = numbers - embedding - packed
    matrices = int(floats * _BYTES.get(chosen, loaded.itemsize)) + packed_nbytes
    if chosen == "int4":
        matrices += int((_HEAD_OF_INT4 - _BYTES["int4"]) * embedding)
    weights = matrices + embedding * loaded.itemsize
    if files.stored is not None:
        weights = matrices = stored_nbytes(files.stored.tensors)
    split = None
    by_rank = [weights]
    if cache_request.split.ranks > 1:
        split = _split_plan(files, cache_request.split)
        by_rank = [int(weights * share.weights) for share in split.shares]
        matrices = int(matrices * max(share.weights for share in split.shares))
        weights = max(by_rank)
    # Read once: free memory changes while other processes run, and a plan must add up.
    free = free_memory(device) // (cache_request.split.ranks if device == CPU else 1)
    inner = inner_size(files.config)
    # What a layer has at once, for all tokens of a step, in float32.
    rows = cache_request.limits.step_tokens * (_ACTIVATIONS * hidden + 2 * inner) * _FLOAT
    choices = _ROWS_OF_GRAPHS if device.type == "cuda" else _LOGITS_ROWS
    logits = 2 * choices * vocabulary * _FLOAT
    states = 0
    if is_recurrent(config):
        assert not isinstance(files.config, PlainConfig), "a plain config of recurrent layers"
        size = plan_states(files.config, files.folder, loaded)
        states = cache_request.limits.states_nbytes(size.of_text, size.of_drafted)
    return Footprint(
        weights=weights,
        weight_format=f"{files.checkpoint.numbers:,} numbers in {chosen}, "
        f"{'/'.join(sorted(files.checkpoint.types))} in the files",
        cache_dtype=loaded,
        working=TABLES + rows + logits,
        free=free,
        device=device,
        context_window=files.context_window,
        extra_nbytes=extra_nbytes,
        states=states,
        bytes_per_call=matrices,
        split=split,
        weights_by_rank=tuple(by_rank),
    )


def _split_plan(files: ModelFiles, split: Split) -> _SplitPlan:
    make = pipeline_plan if split.parallelism is Parallelism.PIPELINE else tensor_plan
    return make(files, read_config(files.folder), split.ranks)


def _format_name(files: ModelFiles, dtype: str | None, loaded: torch.dtype) -> str:
    if files.stored is not None:
        return "blocks as they are stored"
    return str(dtype) if dtype in _BYTES else str(loaded).removeprefix("torch.")


@dataclass(frozen=True, slots=True)
class RankMemory:
    """The bytes of one rank, where ranks differ."""

    holds: str
    weights: int
    cache: int

    def line(self, rank: int) -> tuple[str, str, str]:
        """Return the rank's line of a plan: name, size, and reason."""
        weights, cache = size_text(self.weights), size_text(self.cache)
        reason = f"{self.holds}; weights {weights}, cache {cache}"
        return f"rank {rank}", size_text(self.weights + self.cache), reason


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """What a model and its cache take."""

    footprint: Footprint
    cache: int
    """Bytes of the cache; where the model is split, the most of any one rank."""
    cache_tokens: int
    """Tokens that all running requests may hold."""
    bytes_per_token: int
    by_rank: tuple[RankMemory, ...]
    """The bytes of each rank, where they do not all hold as much."""

    @property
    def needed(self) -> int:
        """Bytes in all."""
        return self.footprint.needed + self.cache

    def lines(self) -> list[tuple[str, str, str]]:
        """Return lines of purpose, size, and reason."""
        own = self.footprint
        return [
            ("weights", size_text(own.weights), own.weight_format),
            (
                "cache",
                size_text(self.cache),
                f"{self.cache_tokens:,} tokens, {size_text(self.bytes_per_token)} each",
            ),
            ("working memory", size_text(own.working), "tables, and the rows of one model call"),
            *(
                [("beside it", size_text(own.extra_nbytes), "drafters with caches, adapters")]
                if own.extra_nbytes
                else []
            ),
            *(
                [("states", size_text(own.states), "of layers that go on from token to token")]
                if own.states
                else []
            ),
            ("needed", size_text(self.needed), ""),
            ("free", size_text(own.free), "" if own.device == CPU else f"on {own.device}"),
            *([] if own.split is None else [("ranks", str(own.split.ranks), own.split.note)]),
            *(memory.line(rank) for rank, memory in enumerate(self.by_rank)),
        ]

    def __str__(self) -> str:
        parts = [
            f"{what} {much}" + (f" ({why})" if why else "") for what, much, why in self.lines()
        ]
        return "memory: " + ", ".join(parts)


def plan_memory(
    footprint: Footprint, caches: Sequence[CacheSize], cache_request: CacheRequest
) -> MemoryPlan:
    """Size the cache, by tokens or bytes if either is given, and check that all of it is free.

    ``caches`` has one size for each rank, or one where all are alike. Raises ``RequestError`` for a
    ``kv_memory`` that holds no token, ``ModelError`` if memory is short.
    """
    cache_tokens, kv_memory = cache_request.cache_tokens, cache_request.kv_memory
    cache = max(caches, key=lambda size: size.bytes_per_token)
    if kv_memory is not None:
        most = cache.limits.max_batch * footprint.context_window
        cache_tokens = min(size.tokens_within(kv_memory, most) for size in caches)
        if cache_tokens < 1:
            raise RequestError(
                f"kv_memory of {size_text(kv_memory)} holds no token: one takes "
                f"{size_text(cache.bytes_per_token)}, and they come in blocks",
                field="kv_memory",
                hint=f"give it at least {size_text(cache.nbytes(_MIN_CACHE_TOKENS))}",
            )
    elif cache_tokens is None:
        # No size was set: take half of what is left, so that other processes keep some room.
        fewest = min(_MIN_CACHE_TOKENS, footprint.context_window)
        room = int(_SHARE * (footprint.free - footprint.needed))
        cache_tokens = max(
            fewest, min(size.tokens_within(room, _MAX_CACHE_TOKENS) for size in caches)
        )
    by_rank = [size.nbytes(cache_tokens) for size in caches]
    plan = MemoryPlan(
        footprint,
        cache=max(by_rank),
        cache_tokens=cache_tokens,
        bytes_per_token=cache.bytes_per_token,
        by_rank=_memory_by_rank(footprint, by_rank),
    )
    if plan.needed > footprint.free:
        raise ModelError(_out_of_memory_message(plan), hint=_hint(plan))
    return plan


def plan_model(
    files: ModelFiles,
    dtype: str | None,
    cache_request: CacheRequest,
    device: torch.device,
    *,
    extra_nbytes: int = 0,
) -> MemoryPlan:
    """Plan for a model that is not loaded, by the layers that its config describes.

    Raises what ``plan_memory`` raises.
    """
    footprint = measure_footprint(files, dtype, cache_request, device, extra_nbytes=extra_nbytes)
    split = footprint.split
    # Each share has an entry for every layer of the model, as ``files.windows`` has.
    every = [files.layers] if split is None else [share.layers for share in split.shares]
    caches = [cache_request.size(layers, files.windows, footprint.cache_dtype) for layers in every]
    return plan_memory(footprint, caches, cache_request)


def _memory_by_rank(footprint: Footprint, caches: Sequence[int]) -> tuple[RankMemory, ...]:
    split = footprint.split
    if split is None or len(split.shares) == 1:
        return ()
    parts = zip(split.shares, footprint.weights_by_rank, caches, strict=True)
    return tuple(RankMemory(share.holds, weights, cache) for share, weights, cache in parts)


def _out_of_memory_message(plan: MemoryPlan) -> str:
    """Return the error text for a model that does not fit: needed bytes by purpose, free memory."""
    own = plan.footprint
    subject = "the model" if own.split is None else f"each of {own.split.ranks} ranks"
    where = "" if own.device == CPU else f" on {own.device}"
    return (
        f"{subject} needs {size_text(plan.needed)} of memory, and "
        f"{size_text(own.free)} are free{where}: "
        f"weights {size_text(own.weights)} ({own.weight_format}), "
        f"cache {size_text(plan.cache)} ({plan.cache_tokens:,} tokens), "
        f"working memory {size_text(own.working)}"
        + (f", drafters and adapters {size_text(own.extra_nbytes)}" if own.extra_nbytes else "")
        + (f", states {size_text(own.states)}" if own.states else "")
    )


def _hint(plan: MemoryPlan) -> str:
    """Return what to change so that the model fits: a smaller cache where that is enough."""
    # It would fit without the cache, so a smaller cache is enough.
    own = plan.footprint
    if own.needed < own.free:
        return f"set kv_memory below {size_text(own.free - own.needed)}"
    if own.device != CPU:
        return "choose a smaller dtype, a smaller model, a device with more memory, or device 'cpu'"
    return "choose a smaller dtype, such as int8, a smaller model, or a machine with more memory"
