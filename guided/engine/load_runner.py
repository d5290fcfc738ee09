"""Loads one model as a runner, whichever library computes its forward pass.

Our own decoder reads the weights from the files; for a model it does not support, a module of
transformers is loaded, whose weights our own pass may still take over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from guided.engine.cache_size import CacheRequest
from guided.engine.formats import compute_dtype
from guided.errors import ModelError
from guided.model.adapter import Adapter
from guided.model.cpu import WeightFormat, why_not
from guided.model.device import CPU
from guided.model.free_memory import size_text
from guided.model.load import (
    LoadedModel,
    ModelTexts,
    as_loaded,
    load_decoder,
    load_model,
    load_stored_decoder,
    load_texts,
    why_not_read,
)
from guided.model.model_files import ModelFiles
from guided.model.progress import Progress
from guided.model.runner import ModelRunner

__all__ = ["OnLoss", "Report", "load_runner"]

Report: TypeAlias = Callable[[int], None]
"""Called with the number of bytes of the weights that were read."""
OnLoss: TypeAlias = Callable[[ModelError], None]
"""Called, in a thread of its own, when another process with a share of the model has ended."""
_FORMATS = {torch.bfloat16: WeightFormat.BF16, torch.float32: WeightFormat.FP32}
_NARROW_FORMATS = {"int8": WeightFormat.INT8, "int4": WeightFormat.INT4}
_log = logging.getLogger(__name__)


def load_runner(
    files: ModelFiles,
    dtype: str | None,
    device: torch.device,
    cache_request: CacheRequest,
    progress: Progress,
    *,
    adapters: Sequence[Adapter] = (),
    on_loss: OnLoss | None = None,
) -> tuple[ModelTexts, Callable[[Report], ModelRunner]]:
    """Return the texts of a model, and a function that makes its runner and reports bytes read.

    Decides which library computes the forward pass, and in how many processes.
    """
    computed_as = compute_dtype(files, dtype, device, by_transformers=cache_request.by_transformers)
    if files.stored is not None:
        return _load_as_stored(files, progress, adapters)
    if cache_request.split.ranks > 1:
        return _load_in_shares(files, computed_as, device, cache_request, progress, on_loss)
    narrow = _NARROW_FORMATS.get(str(dtype))
    chosen = narrow or _FORMATS.get(computed_as)
    can_be_own = chosen is not None and not cache_request.is_quantised
    if can_be_own and device == CPU and why_not_read(files) is None:
        texts = load_texts(files, progress)

        # Our own decoder reads its weights from the files, without the module of transformers.
        def read(report: Report) -> ModelRunner:
            assert chosen is not None
            decoder = load_decoder(files, chosen, dtype=computed_as, report=report)
            size = len(texts.vocabulary)
            return ModelRunner(decoder, vocabulary_size=size, adapters=adapters)

        return texts, read
    loaded = load_model(files, dtype=computed_as, device=device, progress=progress)

    def take(report: Report) -> ModelRunner:
        report(files.checkpoint.nbytes)
        return ModelRunner(
            loaded.module,
            vocabulary_size=len(loaded.vocabulary),
            weights=narrow or _own_format(loaded, cache_request),
            quantise_cache=cache_request.is_quantised,
            adapters=adapters,
        )

    return loaded, take


def _load_as_stored(
    files: ModelFiles, progress: Progress, adapters: Sequence[Adapter]
) -> tuple[ModelTexts, Callable[[Report], ModelRunner]]:
    """Return texts and runner of a GGUF file whose blocks are multiplied as stored.

    A call makes the runner: it reads the weights and reports the bytes read.
    """
    texts = load_texts(files, progress)

    def read(report: Report) -> ModelRunner:
        decoder = load_stored_decoder(files, report=report)
        return ModelRunner(decoder, vocabulary_size=len(texts.vocabulary), adapters=adapters)

    return texts, read


def _load_in_shares(
    files: ModelFiles,
    dtype: torch.dtype,
    device: torch.device,
    cache_request: CacheRequest,
    progress: Progress,
    on_loss: OnLoss | None,
) -> tuple[ModelTexts, Callable[[Report], ModelRunner]]:
    """Return texts and runner of a model split over several processes; this one is rank 0.

    Starts the other ranks, which load at once. ``on_loss`` is called if one is lost later.
    """
    # Torch's modules for several processes take a moment to import.
    from guided.model.parallel.ranks import Ranks
    from guided.model.parallel.sharded_runner import ShardedRunner
    from guided.model.parallel.shares import load_share

    with progress.step(f"starting {cache_request.split.ranks - 1} more ranks"):
        ranks = Ranks.start(
            files.folder,
            dtype,
            device,
            cache_request.split,
            threads=torch.get_num_threads(),
            quantises_cache=cache_request.is_quantised,
        )
    with ranks.together():
        share = load_share(files, dtype, device, cache_request.split, 0, progress)
        loaded = as_loaded(files, share.module)

    def take(report: Report) -> ModelRunner:
        report(files.checkpoint.nbytes)
        runner = ShardedRunner(
            share,
            ranks,
            vocabulary_size=len(loaded.vocabulary),
            quantise_cache=cache_request.is_quantised,
            on_loss=on_loss,
        )
        sizes = (f"rank {rank} {size_text(its.nbytes)}" for rank, its in enumerate(runner.held))
        progress.note(f"weights by rank: {', '.join(sizes)}")
        return runner

    return loaded, take


def _own_format(loaded: LoadedModel, cache_request: CacheRequest) -> WeightFormat | None:
    """Return the format for our own forward pass; ``None`` where transformers' is needed."""
    found = _FORMATS.get(loaded.module.dtype)
    reason = "its cache is kept as int8" if cache_request.is_quantised else why_not(loaded.module)
    if reason is None and found is None:
        reason = f"no matrices of {loaded.module.dtype} are multiplied there"
    if reason is None:
        return found
    _log.info("transformers computes the forward pass of %s: %s", loaded.name, reason)
    return None
