"""Attention of a step batch over the paged cache: each sequence sees its own rows alone.

A segment of many new tokens is computed by itself. Those of few tokens, as all are that decode, are
computed together where that takes fewer calls: their rows are gathered side by side and padded to
the longest, and what is padding is masked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from guided.kv.paged_storage import PagedStorage
from guided.model.batch import Segment, StepBatch
from guided.model.sight import sees_all, sight
from guided.model.softmax_attention import attention

__all__ = ["PackedAttention"]

_FEW = 16
"""So many new tokens at most has a segment that is computed together with others."""


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """A group of layers: where its new rows go, and how they are read."""

    storage: PagedStorage
    new_slots: torch.Tensor
    parts: tuple[_Alone | _Together, ...]


class PackedAttention:
    """Attention of one model call; ``storages`` by window, in the order of a segment's rows."""

    def __init__(
        self,
        batch: StepBatch,
        storages: Mapping[int | None, PagedStorage],
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._groups = {
            window: _Group(
                storage,
                storage.locate(batch.new_slots(number)),
                _parts(batch, number, window, storage, dtype, device),
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
    ) -> torch.Tensor:
        """Store the new keys and values, then let each sequence's tokens see its own rows."""
        group = self._groups[window]
        group.storage.write(
            layer, group.new_slots, key[0].transpose(0, 1), value[0].transpose(0, 1)
        )
        tokens, heads = query.shape[2], query.shape[1]
        output = query.new_empty(tokens, heads, value.shape[-1])
        for part in group.parts:
            part.attend(layer, query[0].transpose(0, 1), output, scaling=scaling, softcap=softcap)
        return output[None]  # [1, tokens, heads, size]


def _parts(
    batch: StepBatch,
    group: int,
    window: int | None,
    storage: PagedStorage,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[_Alone | _Together, ...]:
    numbered = list(zip(batch.starts, batch.segments, strict=True))
    few = [each for each in numbered if len(each[1].tokens) <= _FEW]
    parts: list[_Alone | _Together] = []
    for together in _of_like_length(few, group):
        if len(together) == 1:
            parts.append(_Alone(*together[0], group, window, storage, dtype, device))
        else:
            parts.append(_Together(together, group, window, storage, dtype, device))
    for start, segment in numbered:
        if len(segment.tokens) > _FEW:
            parts.append(_Alone(start, segment, group, window, storage, dtype, device))
    return tuple(parts)


def _of_like_length(
    segments: Sequence[tuple[int, Segment]], group: int
) -> list[list[tuple[int, Segment]]]:
    """Segments in lots whose longest sees at most twice as many rows as the shortest."""
    lots: list[list[tuple[int, Segment]]] = []
    longest = 0
    for each in sorted(segments, key=lambda each: -len(each[1].rows[group].seen)):
        rows = len(each[1].rows[group].seen)
        if 2 * rows < longest or not lots:
            lots.append([])
            longest = rows
        lots[-1].append(each)
    return lots


class _Alone:
    """One segment, whose rows are read without padding, and in place where they lie in a row."""

    def __init__(
        self,
        start: int,
        segment: Segment,
        group: int,
        window: int | None,
        storage: PagedStorage,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        rows = segment.rows[group]
        self._storage = storage
        self._tokens = slice(start, start + len(segment.tokens))
        self._span = (int(rows.seen[0]), int(rows.seen[-1]) + 1) if rows.is_contiguous else None
        self._slots = None if rows.is_contiguous else storage.locate(rows.seen)
        new, seen = len(segment.tokens), len(rows.seen)
        reaches_back = window is None or seen <= window
        self._is_causal = new == seen > 1 and reaches_back and segment.ancestors is None
        self._mask = None
        if not self._is_causal and not sees_all(segment, group, window):
            self._mask = _added(sight(segment, group, window)[None], dtype, device)

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        output: torch.Tensor,
        *,
        scaling: float | None,
        softcap: float | None,
    ) -> None:
        """``query``, ``[tokens, heads, size]`` → its rows of ``output``, alike."""
        if self._span is not None:
            keys, values = self._storage.view(layer, *self._span)
        else:
            assert self._slots is not None
            keys, values = self._storage.read(layer, self._slots)
        found = attention(
            query[self._tokens].transpose(0, 1)[None],
            keys.transpose(0, 1)[None],
            values.transpose(0, 1)[None],
            mask=self._mask,
            is_causal=self._is_causal,
            scaling=scaling,
            softcap=softcap,
        )
        output[self._tokens] = found[0].transpose(0, 1)


class _Together:
    """Segments side by side, each padded to the most tokens and the most rows of any."""

    def __init__(
        self,
        segments: Sequence[tuple[int, Segment]],
        group: int,
        window: int | None,
        storage: PagedStorage,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._storage = storage
        self._count = len(segments)
        most_new = max(len(segment.tokens) for _, segment in segments)
        most_rows = max(len(segment.rows[group].seen) for _, segment in segments)
        slots = np.full((self._count, most_rows), storage.padding_slot)
        tokens = np.zeros((self._count, most_new), np.int64)
        sees = np.zeros((self._count, most_new, most_rows), np.bool_)
        sees[:, :, 0] = True  # of padding; a query has to see something
        places, targets = [], []
        for number, (start, segment) in enumerate(segments):
            new, rows = len(segment.tokens), segment.rows[group].seen
            slots[number, : len(rows)] = rows
            tokens[number, :new] = np.arange(start, start + new)
            sees[number, :new, : len(rows)] = sight(segment, group, window)
            places.append(number * most_new + np.arange(new))
            targets.append(np.arange(start, start + new))
        self._slots = storage.locate(slots.reshape(-1))
        self._tokens = torch.from_numpy(tokens.reshape(-1)).to(device)
        self._places = torch.from_numpy(np.concatenate(places)).to(device)
        self._targets = torch.from_numpy(np.concatenate(targets)).to(device)
        self._mask = _added(sees[:, None], dtype, device)

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        output: torch.Tensor,
        *,
        scaling: float | None,
        softcap: float | None,
    ) -> None:
        """As that of one segment alone."""
        keys, values = self._storage.read(layer, self._slots)
        found = attention(
            self._side_by_side(query.index_select(0, self._tokens)),
            self._side_by_side(keys),
            self._side_by_side(values),
            mask=self._mask,
            scaling=scaling,
            softcap=softcap,
        )
        rows = found.transpose(1, 2).flatten(0, 1)  # [segments * tokens, heads, size]
        output.index_copy_(0, self._targets, rows.index_select(0, self._places))

    def _side_by_side(self, rows: torch.Tensor) -> torch.Tensor:
        """``[segments * rows, heads, size]`` → ``[segments, heads, rows, size]``."""
        return rows.reshape(self._count, -1, *rows.shape[1:]).transpose(1, 2)


def _added(sees: NDArray[np.bool_], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """What is added to the scores: nothing where a token sees a row, minus infinity elsewhere."""
    hidden = torch.from_numpy(~sees).to(device)
    return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, float("-inf"))
