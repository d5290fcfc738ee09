"""Attention of queries over rows of the cache, read in place; all sums are float32.

The queries that share a key head make groups, and a group and a key head are a piece of work. Few
queries are computed by ``row_lanes``, many by ``query_lanes``, whose registers would be almost
empty with few.

A sum is taken in the order of the rows, one after the other, and a row that a query does not see
adds 0 to it. So the output of a query is the same to the last bit, whatever other queries, and
whatever rows of finite numbers that it does not see, stand beside it.
"""

from __future__ import annotations

from typing import Any, Final

from guided.model.cpu.addresses import integers, take_next
from guided.model.cpu.kernel import exact_task
from guided.model.cpu.query_lanes import attend_many, many_scratch_bytes
from guided.model.cpu.row_lanes import FEW, attend_few, few_scratch_bytes

__all__ = ["GROUP_NUMBERS", "JOB_NUMBERS", "attend_in_groups", "scratch_bytes"]

GROUP_NUMBERS: Final = 6
"""Integers that describe a group, see ``attend_in_groups``."""
JOB_NUMBERS: Final = 16


def scratch_bytes(size: int, rows: int, parts: int) -> int:
    """Return the bytes that a thread needs for heads, rows and groups of these sizes."""
    return max(few_scratch_bytes(size, rows), many_scratch_bytes(size, rows, parts))


@exact_task
def attend_in_groups(job: Any) -> None:
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
        group, head = integers(job[9] + piece // kv_heads * GROUP_NUMBERS * 8), piece % kv_heads
        if group[5] <= FEW:
            attend_few(job, group, head, scratch)
        else:
            attend_many(job, group, head, scratch)
