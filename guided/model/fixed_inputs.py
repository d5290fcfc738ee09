"""The inputs of narrow calls, at addresses that stay the same from call to call.

A graph of a call is recorded once for a *width* and replayed for any batch of at most that many
tokens. So all inputs of a batch are written to the same places each time, and a batch is padded
with unused tokens. They write to a slot that nothing reads::

    width 4         token     position    new slot    piece of attention
    the batch       17 23     90 4        35 8        1 token after 90 rows, 1 token after 4
    padding          0  0      0 0         S S        none
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch

from guided.kv.paged_storage import LayerSlots, PagedStorage
from guided.model.attention import AttentionGroup, PackedAttention
from guided.model.batch import StepBatch
from guided.model.torch_attention import ScoreOptions
from guided.model.triton_attention import PIECE, SeenTables, attend, make_seen_tables, pieces_of
from guided.model.visible import visible_slots

__all__ = ["FixedInputs"]

_TEXTS_OF_A_SLOT: Final = 16
"""Texts with a common beginning each have its slots in their table; more are rare."""
_ROWS_READ_AGAIN: Final = 1 << 18
"""Each token reads the rows of its text separately, which for many rows takes longer than
launching a call with larger pieces."""


class FixedInputs:
    """The inputs of calls of up to ``widest`` tokens, over storages whose last slot is spare."""

    def __init__(
        self, storages: Mapping[int | None, PagedStorage], widest: int, device: torch.device
    ) -> None:
        self._widest = widest
        self._tokens, self._positions, self._rows = (
            _Input(widest, torch.int64, device) for _ in range(3)
        )
        self._groups = {
            window: _GroupInputs(storage, widest, device) for window, storage in storages.items()
        }

    def take(self, batch: StepBatch) -> bool:
        """Whether there is room for a batch, and it is worth it."""
        tokens = sum([len(segment.tokens) for segment in batch.segments])
        return tokens <= self._widest and all(
            group.take(batch, number) for number, group in enumerate(self._groups.values())
        )

    def fill(self, batch: StepBatch, width: int) -> None:
        """Write a batch for which ``take`` was true, and send it to the device."""
        self._tokens.fill(batch.tokens, width)
        self._positions.fill(batch.positions, width)
        self._rows.fill(batch.logits_rows, width)
        for number, (window, group) in enumerate(self._groups.items()):
            group.fill(batch, number, window, width)

    def clear(self, width: int) -> None:
        """Write a batch of no tokens."""
        for each in (self._tokens, self._positions, self._rows):
            each.fill((), width)
        for group in self._groups.values():
            group.clear(width)

    def arguments(self, width: int) -> dict[str, torch.Tensor]:
        """Return the arguments of the module."""
        return {
            "input_ids": self._tokens.placed[None, :width],
            "position_ids": self._positions.placed[None, :width],
            "logits_to_keep": self._rows.placed[:width],
        }

    def step(self, width: int) -> PackedAttention:
        """Return the attention of its layers."""
        return PackedAttention(
            {window: group.of_width(width) for window, group in self._groups.items()}
        )


class _Input:
    """Numbers on a device, and the memory from which they are sent there."""

    def __init__(self, size: int, dtype: torch.dtype, device: torch.device) -> None:
        # Only pinned memory is copied while the processor continues.
        self._sent = torch.zeros(size, dtype=dtype, pin_memory=device.type == "cuda")
        self._numbers = self._sent.numpy()
        self.placed = self._sent.to(device)

    def __len__(self) -> int:
        return len(self._numbers)

    def fill(self, numbers: object, size: int, rest: int = 0) -> None:
        """Send numbers, then ``rest`` in each further place, up to ``size`` in all."""
        given = np.asarray(numbers, self._numbers.dtype)
        self._numbers[: len(given)] = given
        self._numbers[len(given) : size] = rest
        size = max(size, len(given))
        self.placed[:size].copy_(self._sent[:size], non_blocking=True)


class _GroupInputs:
    """The inputs of the layers of one group."""

    def __init__(self, storage: PagedStorage, widest: int, device: torch.device) -> None:
        self._storage = storage
        self._spare = storage.num_slots - 1
        self._new_slots = _Input(widest, torch.int64, device)
        self._slots = _Input(_TEXTS_OF_A_SLOT * storage.num_slots, torch.int32, device)
        self._first_seen = _Input(widest, torch.int32, device)
        self._among = _Input(widest * widest, torch.int8, device)
        self._pieces = _Input(widest * PIECE, torch.int32, device)

    def take(self, batch: StepBatch, number: int) -> bool:
        """Whether the tables have room for a batch, and it is worth it."""
        texts = [(len(each.reservations[number].seen), len(each.tokens)) for each in batch.segments]
        rows = sum([seen for seen, _ in texts])
        again = sum([seen * (tokens - 1) for seen, tokens in texts])
        nodes = [
            len(segment.tokens) * (len(segment.tokens) + len(segment.earlier_depths))
            for segment in batch.segments
        ]
        has_room = rows <= len(self._slots) and sum(nodes) <= len(self._among)
        return has_room and again <= _ROWS_READ_AGAIN

    def fill(self, batch: StepBatch, number: int, window: int | None, width: int) -> None:
        """Copy a batch's inputs for one group of layers to the device, padded to ``width``.

        ``number`` is that of the group, ``window`` that of its layers.
        """
        seen = visible_slots(batch, number, window)
        tables = make_seen_tables(seen)
        self._new_slots.fill(batch.new_slots(number), width, self._spare)
        self._slots.fill(tables.slots, 0)
        self._first_seen.fill(tables.first_seen, width)
        self._among.fill(tables.among, 0)
        # A piece of no tokens reads and writes nothing.
        self._pieces.fill(pieces_of(seen, 1).reshape(-1), width * PIECE)

    def clear(self, width: int) -> None:
        """Do the same for a batch of no tokens."""
        self._new_slots.fill((), width, self._spare)
        self._pieces.fill((), width * PIECE)

    def of_width(self, width: int) -> AttentionGroup:
        tables = SeenTables(self._slots.placed, self._first_seen.placed, self._among.placed)
        pieces = self._pieces.placed[: width * PIECE].view(width, PIECE)
        return AttentionGroup(
            self._storage, self._new_slots.placed[:width], _FixedAttention(tables, pieces)
        )


class _FixedAttention:
    """Attention with tables that stay where they are; each token is a piece of its own."""

    def __init__(self, tables: SeenTables, pieces: torch.Tensor) -> None:
        self._tables = tables
        self._pieces = pieces

    def attend(self, query: torch.Tensor, layer: LayerSlots, scores: ScoreOptions) -> torch.Tensor:
        return attend(query, layer, scores, self._tables, self._pieces, 1)
