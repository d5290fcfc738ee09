"""Attention of one model call in one group of layers, by torch's kernel over gathered rows.

Sequences of like size are computed together: a call over eight costs a quarter of eight calls. In
narrow calls the query heads that share a key head become rows of one query, so that a key is read
once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.lots import Lot, lots_of_like_size
from guided.model.seen_rows import SeenRows
from guided.model.softmax_attention import attention

__all__ = ["GatherableRows", "GatheredAttention"]

_MOST_FOLDED = 64
"""So many new tokens at most are folded: of more, a larger mask costs more than it saves."""


class GatherableRows(Protocol):
    """The keys and values of one layer."""

    def take(self, slots: torch.Tensor | slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Those in some slots, ``[rows, kv heads, size]`` each; of a slice, views if possible."""
        ...


class GatheredAttention:
    """Who sees what, worked out once for all layers of a group; sequences in packed order."""

    def __init__(
        self, seen: Sequence[SeenRows], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._lots = [_LotAttention(lot, dtype, device) for lot in lots_of_like_size(seen)]

    def attend(
        self,
        query: torch.Tensor,
        rows: GatherableRows,
        *,
        scaling: float | None,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``[packed tokens, heads, size]`` → ``[packed tokens, heads, value size]``."""
        found = [lot.attend(query, rows, scaling, softcap, sinks) for lot in self._lots]
        if len(found) == 1:
            return found[0]
        output = found[0].new_empty(len(query), *found[0].shape[1:])
        for lot, its_rows in zip(self._lots, found, strict=True):
            output.index_copy_(0, lot.tokens, its_rows)
        return output


class _LotAttention:
    """One lot; its tokens are in packed order, so those of a lot of all need no index."""

    def __init__(self, lot: Lot, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._sees = lot.sees
        self._is_causal = _is_causal(lot.sees)
        self._masks: dict[int, torch.Tensor | None] = {}
        self.tokens = torch.from_numpy(lot.tokens[lot.is_token]).to(device)
        self._padded_tokens = torch.from_numpy(lot.tokens.reshape(-1)).to(device)
        places = None if lot.is_token.all() else np.flatnonzero(lot.is_token)
        self._places = None if places is None else torch.from_numpy(places).to(device)
        slots = lot.slots.reshape(-1)
        self._slots = _as_slice(slots) or torch.from_numpy(slots).to(device)

    def attend(
        self,
        query: torch.Tensor,
        rows: GatherableRows,
        scaling: float | None,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """``[packed tokens, heads, size]`` → those of the lot, ``[tokens, heads, value size]``."""
        count, new = self._sees.shape[:2]
        keys, values = (
            part.view(count, -1, *part.shape[1:]).transpose(1, 2) for part in rows.take(self._slots)
        )  # [sequences, kv heads, rows, size]
        if len(self._padded_tokens) != len(query) or self._places is not None:
            query = query.index_select(0, self._padded_tokens)
        heads, kv_heads = query.shape[1], keys.shape[1]
        is_folded = new <= _MOST_FOLDED and softcap is None and sinks is None
        shared = heads // kv_heads if is_folded else 1
        folded = query.to(keys.dtype).view(count, new, heads // shared, shared, -1)
        found = attention(
            folded.permute(0, 2, 3, 1, 4).reshape(count, heads // shared, shared * new, -1),
            keys,
            values,
            mask=self._mask(shared),
            is_causal=self._is_causal and shared == 1,
            scaling=scaling,
            softcap=softcap,
            sinks=sinks,
        )
        unfolded = found.view(count, heads // shared, shared, new, -1).permute(0, 3, 1, 2, 4)
        output = unfolded.to(query.dtype).reshape(count * new, heads, -1)
        return output if self._places is None else output.index_select(0, self._places)

    def _mask(self, shared: int) -> torch.Tensor | None:
        """What is added to the scores of so many heads folded into one."""
        if shared not in self._masks:
            self._masks[shared] = self._made_mask(shared)
        return self._masks[shared]

    def _made_mask(self, shared: int) -> torch.Tensor | None:
        if self._sees.all() or (self._is_causal and shared == 1):
            return None
        hidden = torch.from_numpy(~self._sees).to(self._device)[:, None].repeat(1, 1, shared, 1)
        zeros = torch.zeros(hidden.shape, dtype=self._dtype, device=self._device)
        return zeros.masked_fill_(hidden, float("-inf"))


def _is_causal(sees: NDArray[np.bool_]) -> bool:
    """Whether these are the first tokens of a sequence, each of which sees all before it."""
    count, new, rows = sees.shape
    return count == 1 and new == rows and bool((sees[0] == np.tri(new, dtype=np.bool_)).all())


def _as_slice(slots: NDArray[np.int64]) -> slice | None:
    """The slots as a slice, if they count up by one."""
    first, last = int(slots[0]), int(slots[-1]) + 1
    return slice(first, last) if np.array_equal(slots, np.arange(first, last)) else None
