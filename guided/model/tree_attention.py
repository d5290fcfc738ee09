"""Attention of one model call in one group of layers, by a kernel that reads rows where they lie.

The same as ``GatheredAttention`` without gathering, padding or masks in memory, on CUDA devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from guided.kv.slot_rows import StoredNumbers
from guided.model.seen_rows import SeenRows
from guided.model.tree_kernel import attend

__all__ = ["StoredLayer", "TreeAttention"]

_MOST_QUERIES = 64
"""Query rows of a program, at most; a wide matrix unit wants 16 at least."""
_FEWEST_QUERIES = 16
_MOST_ROWS = 64
_TILE_BYTES = 1 << 14
"""Of the keys of one head that a program holds at a time; some tiles have to fit a processor."""


class StoredLayer(Protocol):
    """The keys and values of one layer, as they are stored."""

    def stored(self) -> tuple[StoredNumbers, StoredNumbers]:
        """All slots of them."""
        ...


class TreeAttention:
    """Who sees what, worked out once for all layers of a group; sequences in packed order.

    Raises ``ValueError`` where a token does not see a run of its sequence's earlier rows up to the
    last of them, as behind a window.
    """

    def __init__(self, seen: Sequence[SeenRows], *, device: torch.device) -> None:
        self._seen = seen
        self._device = device
        self._most_new = max(len(rows.sees) for rows in seen)
        self._slots = self._placed(np.concatenate([rows.slots for rows in seen]))
        self._first_seen = self._placed(np.concatenate([_first_seen(rows) for rows in seen]))
        among = [rows.sees[:, len(rows.slots) - len(rows.sees) :].reshape(-1) for rows in seen]
        self._among = torch.from_numpy(np.concatenate(among).view(np.int8)).to(device)
        self._pieces: dict[int, torch.Tensor] = {}

    def attend(
        self,
        query: torch.Tensor,
        rows: StoredLayer,
        *,
        scaling: float | None,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``[packed tokens, heads, size]`` → ``[packed tokens, heads, value size]``."""
        keys, values = rows.stored()
        tokens, heads, size = query.shape
        kv_heads, value_size = values.numbers.shape[1:]
        shared = heads // kv_heads
        wanted = triton.next_power_of_2(shared * self._most_new)
        least = max(_FEWEST_QUERIES, triton.next_power_of_2(shared))
        block = max(least, min(_MOST_QUERIES, wanted))
        pieces = self._in_pieces(block // shared)
        padded_size = max(16, triton.next_power_of_2(size))
        row_bytes = padded_size * query.element_size()
        query = query.contiguous()
        output = query.new_empty(tokens, heads, value_size)
        # What a kernel is compiled without is never read; any tensor stands in for it.
        unread = output
        # Triton computes on the current device, wherever the numbers are.
        with torch.cuda.device(query.get_device()):
            attend[(len(pieces), kv_heads)](
                query,
                keys.numbers,
                values.numbers,
                unread if keys.scales is None else keys.scales,
                unread if values.scales is None else values.scales,
                unread if sinks is None else sinks,
                output,
                self._slots,
                self._first_seen,
                self._among,
                pieces,
                query.stride(0),
                output.stride(0),
                keys.numbers.stride(0),
                values.numbers.stride(0),
                kv_heads,
                size**-0.5 if scaling is None else scaling,
                1.0 if softcap is None else softcap,
                HEADS_SHARED=shared,
                SIZE=size,
                VALUE_SIZE=value_size,
                PADDED_SIZE=padded_size,
                PADDED_VALUE_SIZE=max(16, triton.next_power_of_2(value_size)),
                BLOCK_QUERIES=block,
                BLOCK_ROWS=max(16, min(_MOST_ROWS, _TILE_BYTES // row_bytes)),
                HAS_SCALES=keys.scales is not None,
                HAS_SOFTCAP=softcap is not None,
                HAS_SINKS=sinks is not None,
            )
        return output

    def _in_pieces(self, tokens: int) -> torch.Tensor:
        """What each program is to do, so many tokens of one sequence at most, ``[programs, 7]``."""
        if tokens not in self._pieces:
            pieces = []
            token = row = among = 0
            for rows in self._seen:
                new, count = rows.sees.shape
                for node in range(0, new, tokens):
                    own = min(tokens, new - node)
                    pieces.append((token + node, own, node, new, row, count, among))
                token, row, among = token + new, row + count, among + new * new
            self._pieces[tokens] = self._placed(np.array(pieces))
        return self._pieces[tokens]

    def _placed(self, numbers: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(numbers.astype(np.int32)).to(self._device)


def _first_seen(rows: SeenRows) -> NDArray[np.int64]:
    """The first row that each new token sees of those before the new ones, ``[new]``."""
    new, count = rows.sees.shape
    old = rows.sees[:, : count - new]
    first: NDArray[np.int64] = count - new - old.sum(axis=1)
    if not np.array_equal(old, np.arange(count - new) >= first[:, None]):
        raise ValueError("a token does not see all rows from its first one to the new ones")
    return first
