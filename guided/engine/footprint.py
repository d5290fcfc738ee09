"""What a model takes besides its cache, by its config and the headers of its files."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from guided.model.cpu import is_kept_twice
from guided.model.free_memory import free_memory
from guided.model.load import native_dtype
from guided.model.model_files import ModelFiles

__all__ = ["Footprint", "measure_footprint"]

_TABLES = 300 * 2**20
"""Of vocabulary, masks and machine code, and buffers of the libraries: about what the default model
came to on the CPU. On CUDA the tables are elsewhere, and the buffers of its libraries larger."""
_LOGITS_ROWS = 128
"""Choices in the widest call that is usual."""
_ACTIVATIONS = 8
"""Rows of hidden size that a layer has at once, besides two of its inner size."""
_FLOAT = 4
_ROOM_TO_STREAM = 4
"""How many times as much has to be free as a second copy of matrices takes."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes, and what they are made of."""

    weights: int
    weight_format: str
    streams: bool
    """Whether there is room for the matrices a second time, laid out for narrow calls."""
    cache_dtype: torch.dtype
    """In which keys and values are computed."""
    working: int
    free: int
    device: torch.device
    """Where all of it is taken."""
    context_window: int


def measure_footprint(
    files: ModelFiles, dtype: str | None, step_tokens: int, device: torch.device
) -> Footprint:
    """What ``files`` would take with weights of a format; ``None`` is the engine's own choice."""
    loaded = native_dtype(device) if dtype in (None, "int8") else getattr(torch, str(dtype))
    chosen = "int8" if dtype == "int8" else str(loaded).removeprefix("torch.")
    config = files.config.get_text_config()
    hidden, vocabulary = int(config.hidden_size), int(config.vocab_size)
    numbers = files.checkpoint.numbers
    is_packed = device.type == "cpu"
    if is_packed and config.tie_word_embeddings:
        # Rows are looked up in one copy, the other is packed for products.
        numbers += vocabulary * hidden
    embedding = vocabulary * hidden
    matrices = (numbers - embedding) * (1 if chosen == "int8" else loaded.itemsize)
    weights = matrices + embedding * loaded.itemsize
    free = free_memory(device)
    streams = chosen == "int8" and is_kept_twice() and _ROOM_TO_STREAM * matrices <= free
    if streams:
        weights += matrices
    inner = int(getattr(config, "intermediate_size", None) or 4 * hidden)
    rows = step_tokens * (_ACTIVATIONS * hidden + 2 * inner) * _FLOAT
    logits = 2 * _LOGITS_ROWS * vocabulary * _FLOAT
    return Footprint(
        weights=weights,
        weight_format=f"{files.checkpoint.numbers:,} numbers in {chosen}, "
        f"{'/'.join(sorted(files.checkpoint.types))} in the files",
        streams=streams,
        cache_dtype=loaded,
        working=_TABLES + rows + logits,
        free=free,
        device=device,
        context_window=files.context_window,
    )
