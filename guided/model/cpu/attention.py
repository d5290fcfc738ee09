"""Attention of one model call in one group of layers, between rows of float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from guided.model.cpu.attention_task import (
    GROUP_NUMBERS,
    JOB_NUMBERS,
    attend_in_groups,
    scratch_bytes,
)
from guided.model.cpu.kernel import kernel
from guided.model.cpu.layer_cache import LayerCache
from guided.model.cpu.linear import Numbers
from guided.model.cpu.team import run_together, team_address, team_size
from guided.model.cpu.vectors import LANES, LINE
from guided.model.seen_rows import SeenRows

__all__ = ["Attention"]

_MOST_PARTS = 4
"""Registers of queries at most for which keys are read at once."""
_PIECES = 4
"""So many for each thread at least, or queries are not put together."""


class Attention:
    """Who sees what, worked out once for all layers of a group; sequences in packed order."""

    def __init__(self, seen: Sequence[SeenRows], *, heads: int, kv_heads: int, size: int) -> None:
        shared, counts = heads // kv_heads, [len(rows.sees) for rows in seen]
        self._columns = heads * size
        self.new_slots = np.concatenate([rows.new_slots for rows in seen])  # [tokens]
        self._kept: list[NDArray[Any]] = []  # what the table of groups has addresses of
        registers = sum(-(-count * shared // LANES) for count in counts)
        parts = max(1, min(_MOST_PARTS, registers * kv_heads // (_PIECES * team_size())))
        starts = np.cumsum([0, *counts]).tolist()
        groups = [
            self._group(start, rows, shared, range(first, len(rows.sees) * shared)[: parts * LANES])
            for start, rows in zip(starts, seen, strict=False)
            for first in range(0, len(rows.sees) * shared, parts * LANES)
        ]
        table = np.array(groups, np.int64)
        assert table.shape[1] == GROUP_NUMBERS
        self._threads = min(team_size(), len(groups) * kv_heads)
        needed = scratch_bytes(size, int(table[:, 1].max()), parts)
        scratch = np.empty(self._threads * needed + LINE, np.uint8)
        start = scratch.ctypes.data
        self._kept += [table, scratch]
        self._job = np.zeros(JOB_NUMBERS, np.int64)
        self._job[5:9] = shared, kv_heads, size, (heads + 2 * kv_heads) * size
        self._job[[9, 10]] = table.ctypes.data, len(groups)
        self._job[[13, 14]] = start + -start % LINE, needed

    def attend(self, mixed: Numbers, cache: LayerCache, scale: float) -> Numbers:
        """Queries, the first columns of ``mixed`` → ``[tokens, heads * size]``."""
        found = np.empty((len(mixed), self._columns), np.float32)
        keys, values = cache.key_numbers, cache.value_numbers
        scales, counters = np.array([scale], np.float32), np.zeros(2, np.int64)
        _start(
            *(self._job, mixed, found, keys, values, scales, counters),
            *(team_address(), attend_in_groups.address, self._threads),
        )
        return found

    def _group(self, start: int, rows: SeenRows, shared: int, queries: range) -> list[int]:
        """Some queries of a sequence, which starts at a token, and the rows that any of them sees.

        The query heads that share a key head are queries one behind the other.
        """
        sees = rows.sees[np.array(queries) // shared]  # [queries, rows]
        is_seen = sees.any(axis=0).nonzero()[0]
        begin, end = int(is_seen[0]), int(is_seen[-1]) + 1
        parts = -(-len(queries) // LANES)
        lanes = np.full((parts * LANES, end - begin), True)  # of lanes that there are not: all
        lanes[: len(queries)] = sees[:, begin:end]
        by_row = np.ascontiguousarray(lanes.reshape(parts, LANES, -1).transpose(0, 2, 1))
        bits = np.packbits(by_row, axis=2, bitorder="little")  # [parts, rows, 2]
        slots = np.ascontiguousarray(rows.slots[begin:end])
        self._kept += [bits, slots]
        places = slots.ctypes.data, end - begin, bits.ctypes.data
        return [*places, start, queries[0], len(queries)]


@kernel
def _start(
    job: Any,
    mixed: Any,
    found: Any,
    keys: Any,
    values: Any,
    scales: Any,
    counters: Any,
    team: Any,
    task: Any,
    threads: Any,
) -> None:
    """Put into the job what is of one layer, see ``attend_in_groups``."""
    job[0], job[1] = mixed.ctypes.data, found.ctypes.data
    job[2], job[3], job[4] = keys.ctypes.data, values.ctypes.data, keys.itemsize
    job[11], job[12] = counters.ctypes.data, scales.ctypes.data
    job[15] = counters.ctypes.data + 8
    run_together(team, task, job.ctypes.data, threads)
