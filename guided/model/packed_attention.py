"""Attention of a step batch over the paged cache: each sequence sees its own rows alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from guided.kv.paged_storage import PagedStorage
from guided.kv.slot_rows import StoredNumbers
from guided.model.attention_kernel import AttentionKernel, CacheAttention, open_attention
from guided.model.batch import StepBatch
from guided.model.sight import seen_rows

__all__ = ["PackedAttention", "StoredRows"]


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """A group of layers: where its new rows go, and how they are read."""

    storage: PagedStorage
    new_slots: torch.Tensor
    attention: CacheAttention


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
    """The rows of one layer in a storage."""

    storage: PagedStorage
    layer: int

    def take(self, slots: torch.Tensor | slice) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(slots, slice):
            return self.storage.view(self.layer, slots.start, slots.stop)
        return self.storage.read(self.layer, slots)

    def stored(self) -> tuple[StoredNumbers, StoredNumbers]:
        return self.storage.stored(self.layer)


class PackedAttention:
    """Attention of one model call; ``storages`` by window, in the order of a segment's rows."""

    def __init__(
        self,
        batch: StepBatch,
        storages: Mapping[int | None, PagedStorage],
        *,
        kernel: AttentionKernel,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._groups = {
            window: _Group(
                storage,
                storage.locate(batch.new_slots(number)),
                open_attention(
                    kernel, seen_rows(batch, number, window), dtype=dtype, device=device
                ),
            )
            for number, (window, storage) in enumerate(storages.items())
        }

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scaling: float | None,
        window: int | None,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """Store the new keys and values, then let each sequence's tokens see its own rows."""
        group = self._groups[window]
        group.storage.write(
            layer, group.new_slots, key[0].transpose(0, 1), value[0].transpose(0, 1)
        )
        output = group.attention.attend(
            query[0].transpose(0, 1),
            StoredRows(group.storage, layer),
            scaling=scaling,
            softcap=softcap,
            sinks=sinks,
        )
        return output[None]  # [1, tokens, heads, size]
