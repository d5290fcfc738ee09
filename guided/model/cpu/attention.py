"""Attention of one model call in one group of layers, from and to rows of float32.

Rows of the cache are read in place; all sums are float32. The queries that share a key head make
groups, and a group and a key head are a piece of work. Few queries are computed by ``row_lanes``,
many by ``query_lanes``, whose registers would be almost empty with few.

A sum is taken in the order of the rows, one after the other, and a row that a query does not see
adds 0 to it. So the output of a query is the same to the last bit, whatever other queries, and
whatever rows of finite numbers that it does not see, stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.cpu.addresses import floats, integers, take_next
from guided.model.cpu.attention_parts import WIDEST_HEAD
from guided.model.cpu.kernel import exact_task, kernel
from guided.model.cpu.llvm import LANES, LINE
from guided.model.cpu.matrix import Numbers
from guided.model.cpu.query_lanes import attend_many, many_scratch_bytes
from guided.model.cpu.row_lanes import FEW, attend_few, few_scratch_bytes
from guided.model.cpu.thread_team import COUNTER_APART, run_together, team_address, team_size
from guided.model.visible import VisibleSlots

__all__ = ["WIDEST_HEAD", "CpuAttention", "LayerCache"]

_MOST_PARTS = 4
"""The most registers of queries for which keys are read at once."""
_PIECES = 4
"""The least number of pieces for each thread; with fewer, queries are not joined."""
_GROUP_NUMBERS: Final = 6
"""Integers that describe a group, see ``_attend_in_groups``."""
_JOB_NUMBERS: Final = 16
_COUNTERS = _JOB_NUMBERS + COUNTER_APART
"""Where a job has its two counters; the scale comes right after its integers."""


class LayerCache(NamedTuple):
    """The keys and values of one layer, ``[slots, kv heads, size]`` each, as kernels read them.

    float32, or the bits of bf16 in uint16, because numpy has no such type.
    """

    keys: NDArray[Any]
    values: NDArray[Any]

    @classmethod
    def of(cls, keys: torch.Tensor, values: torch.Tensor) -> LayerCache:
        """Make views of contiguous tensors of float32 or bf16, which share their memory."""
        return cls(_numbers(keys), _numbers(values))


def _numbers(rows: torch.Tensor) -> NDArray[Any]:
    assert rows.is_contiguous(), "slots of the cache do not lie one after the other"
    assert rows.dtype in (torch.float32, torch.bfloat16), f"a cache of {rows.dtype}"
    numbers: NDArray[Any] = (
        rows.numpy() if rows.dtype == torch.float32 else rows.view(torch.uint16).numpy()
    )
    return numbers


class CpuAttention:
    """Who sees what, worked out once for all layers of a group; sequences in packed order.

    It serves one layer at a time, because job and scratch memory are its own.
    """

    def __init__(
        self, visible: Sequence[VisibleSlots], *, heads: int, kv_heads: int, size: int
    ) -> None:
        shared, counts = heads // kv_heads, [len(rows.mask) for rows in visible]
        self._columns = heads * size
        self.new_slots = np.concatenate([rows.new_slots for rows in visible])  # [tokens]
        self._kept: list[NDArray[Any]] = []  # arrays whose addresses are in the table of groups
        registers = sum(-(-count * shared // LANES) for count in counts)
        parts = max(1, min(_MOST_PARTS, registers * kv_heads // (_PIECES * team_size())))
        starts = np.cumsum([0, *counts]).tolist()
        groups = [
            self._group(start, rows, shared, range(first, len(rows.mask) * shared)[: parts * LANES])
            for start, rows in zip(starts, visible, strict=False)
            for first in range(0, len(rows.mask) * shared, parts * LANES)
        ]
        table = np.array(groups, np.int64)
        assert table.shape[1] == _GROUP_NUMBERS
        self._threads = min(team_size(), len(groups) * kv_heads)
        longest = int(table[:, 1].max())
        needed = max(few_scratch_bytes(size, longest), many_scratch_bytes(size, longest, parts))
        scratch = np.empty(self._threads * needed + LINE, np.uint8)
        start = scratch.ctypes.data
        self._kept += [table, scratch]
        self._job = np.zeros(_COUNTERS + 2, np.int64)
        self._job[5:9] = shared, kv_heads, size, (heads + 2 * kv_heads) * size
        self._job[[9, 10]] = table.ctypes.data, len(groups)
        self._job[[13, 14]] = start + -start % LINE, needed
        its_start = self._job.ctypes.data
        self._job[12] = its_start + _JOB_NUMBERS * 8
        self._job[[11, 15]] = its_start + _COUNTERS * 8, its_start + (_COUNTERS + 1) * 8

    def attend(self, mixed: Numbers, cache: LayerCache, scale: float) -> Numbers:
        """Map queries, the first columns of ``mixed``, to ``[tokens, heads * size]``."""
        found = np.empty((len(mixed), self._columns), np.float32)
        team, task = team_address(), _attend_in_groups.address
        _start(self._job, mixed, found, *cache, scale, team, task, self._threads)
        return found

    def _group(self, start: int, rows: VisibleSlots, shared: int, queries: range) -> list[int]:
        """Make an entry of the table of groups: some queries, and the rows that any of them sees.

        ``start`` is the sequence's first token in the packed row. The ``shared`` query heads of a
        key head are consecutive queries; ``queries`` are places among these.
        """
        mask = rows.mask[np.array(queries) // shared]  # [queries, rows]
        is_seen = mask.any(axis=0).nonzero()[0]
        begin, end = int(is_seen[0]), int(is_seen[-1]) + 1
        sees = mask[:, begin:end]
        bits = np.packbits(
            _by_query(sees) if len(sees) <= FEW else _by_row(sees), bitorder="little"
        )
        slots = np.ascontiguousarray(rows.slots[begin:end])
        self._kept += [bits, slots]
        places = slots.ctypes.data, end - begin, bits.ctypes.data
        return [*places, start, queries[0], len(queries)]


def _by_query(sees: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Fill rows, ``[queries, rows]``, up to whole registers with some that nobody sees."""
    filled = np.zeros((len(sees), -(-sees.shape[1] // LANES) * LANES), np.bool_)
    filled[:, : sees.shape[1]] = sees
    return filled


def _by_row(sees: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Fill queries up to whole registers with some that see all, ``[parts, rows, 16]``.

    One that sees none would have minus infinity as its largest score, and NaN as the rest.
    """
    parts = -(-len(sees) // LANES)
    lanes = np.ones((parts * LANES, sees.shape[1]), np.bool_)
    lanes[: len(sees)] = sees
    return lanes.reshape(parts, LANES, -1).transpose(0, 2, 1)


@kernel
def _start(
    job: Any,
    mixed: Any,
    found: Any,
    keys: Any,
    values: Any,
    scale: Any,
    team: Any,
    task: Any,
    threads: Any,
) -> None:
    """Write what changes from layer to layer into the job, see ``_attend_in_groups``."""
    job[0], job[1] = mixed.ctypes.data, found.ctypes.data
    job[2], job[3], job[4] = keys.ctypes.data, values.ctypes.data, keys.itemsize
    floats(job[12])[0] = scale
    job[_COUNTERS] = job[_COUNTERS + 1] = 0
    run_together(team, task, job.ctypes.data, threads)


@exact_task
def _attend_in_groups(job: Any) -> None:
    """Compute pieces: a piece is one group of queries for one key head.

    ``job``: addresses of queries, outputs, keys and values; bytes of a number in the latter, 2 for
    bf16; query heads for each key head, key heads, numbers in a head, numbers in a row of queries;
    address of the groups, their number, the counter, address of the scale; address of scratch, its
    bytes for a thread, and the counter of threads.

    A group has some queries of a sequence: address of the slots of its rows, their number, address
    of the bits that say which rows a query sees, first token of the sequence, first query within
    that, and the number of queries. Of up to ``FEW`` queries the bits are one query's after the
    other's, whole 16 rows of each; of more, by 16 queries, their bits for one row after the other.
    """
    kv_heads = job[6]
    scratch = job[13] + take_next(job[15]) * job[14]  # of this thread alone
    while True:
        piece = take_next(job[11])
        if piece >= job[10] * kv_heads:
            return
        group, head = integers(job[9] + piece // kv_heads * _GROUP_NUMBERS * 8), piece % kv_heads
        if group[5] <= FEW:
            attend_few(job, group, head, scratch)
        else:
            attend_many(job, group, head, scratch)
