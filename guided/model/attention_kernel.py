"""Which code computes the attention of a model call, behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from importlib.util import find_spec
from typing import Protocol

import torch

from guided.kv.slot_rows import StoredNumbers
from guided.model.gathered_attention import GatherableRows, GatheredAttention
from guided.model.seen_rows import SeenRows

__all__ = ["AttentionKernel", "CacheAttention", "LayerCacheRows", "best_kernel", "open_attention"]

_TRITON_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


class AttentionKernel(StrEnum):
    """Code that computes attention over the rows of a cache."""

    TORCH = "torch"
    """Torch's kernel over gathered rows, anywhere."""
    TRITON = "triton"
    """A kernel of ours that reads rows where they lie, on CUDA devices beside Triton."""


class LayerCacheRows(GatherableRows, Protocol):
    """The keys and values of one layer."""

    def stored(self) -> tuple[StoredNumbers, StoredNumbers]:
        """All slots of them, as they lie in memory."""
        ...


class CacheAttention(Protocol):
    """Attention of one model call in one group of layers."""

    def attend(
        self,
        query: torch.Tensor,
        rows: LayerCacheRows,
        *,
        scaling: float | None,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """``[packed tokens, heads, size]`` → ``[packed tokens, heads, value size]``."""
        ...


def best_kernel(dtype: torch.dtype, device: torch.device) -> AttentionKernel:
    """The fastest that can run here."""
    has_triton = device.type == "cuda" and find_spec("triton") is not None
    if has_triton and dtype in _TRITON_DTYPES:
        return AttentionKernel.TRITON
    return AttentionKernel.TORCH


def open_attention(
    kernel: AttentionKernel,
    seen: Sequence[SeenRows],
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> CacheAttention:
    """Work out who sees what, for sequences in packed order."""
    if kernel is AttentionKernel.TORCH:
        return GatheredAttention(seen, dtype=dtype, device=device)
    # Triton is there on CUDA machines alone.
    from guided.model.tree_attention import TreeAttention

    return TreeAttention(seen, device=device)
