"""Measures slots that are held but unused: `python benchmarks/cache_waste.py LENGTHS [BATCH]`.

LENGTHS is a file of JSON lines with `prompt_tokens` and `answer_tokens`, such as
benchmarks/workload_lengths.jsonl. The requests go through the bookkeeping of the cache, BATCH at
once (8), first come first served: the prompt in one step, then one token per step. Prints for each
block size, of the slots that running sequences hold during a model call, the share without a row,
and the time of bookkeeping per sequence and step, the best of three runs. Every size gets a pool of
16,384 slots, and nothing is shared.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from guided.kv import BlockCache, LayerGroup, SequenceBlocks
from guided.spec import TokenId

_BLOCK_SIZES = (4, 8, 16, 32)
_SLOTS = 16_384
_NO_TOKEN = TokenId(0)


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many tokens one request puts into the cache."""

    prompt: int
    answer: int


@dataclass(slots=True)
class Counts:
    """Sums over the steps of all sequences."""

    held: int = 0
    spare: int = 0
    reservations: int = 0


def read_lengths(path: Path) -> list[Lengths]:
    """Return the requests of a file, in order."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Lengths(row["prompt_tokens"], row["answer_tokens"]) for row in rows]


def run(requests: list[Lengths], block_size: int, batch: int) -> tuple[Counts, float]:
    """Serve all requests; returns the counts, and the seconds of bookkeeping."""
    cache = BlockCache([LayerGroup(_SLOTS // block_size)], block_size, reuse_prefixes=False)
    waiting, running = deque(requests), list[tuple[SequenceBlocks, Lengths]]()
    counts, seconds = Counts(), 0.0
    while waiting or running:
        started = time.process_time()
        while waiting and len(running) < batch:
            running.append((cache.open(), waiting.popleft()))
        for blocks, lengths in running:
            blocks.reserve(1 if blocks.committed else lengths.prompt)
        seconds += time.process_time() - started
        for blocks, _ in running:
            table = blocks.tables[0]
            counts.held += len(table.blocks) * block_size
            counts.spare += table.spare
            counts.reservations += 1
        started = time.process_time()
        for blocks, _ in running:
            blocks.commit(range(blocks.reserved), [_NO_TOKEN] * blocks.reserved)
        ended = [blocks for blocks, lengths in running if blocks.committed == _rows(lengths)]
        for blocks in ended:
            blocks.release()
        running = [(blocks, lengths) for blocks, lengths in running if blocks not in ended]
        seconds += time.process_time() - started
    cache.check()
    return counts, seconds


def _rows(lengths: Lengths) -> int:
    # The last token of an answer is never fed to the model.
    return lengths.prompt + max(0, lengths.answer - 1)


def main(path: Path, batch: int) -> None:
    requests = read_lengths(path)
    tokens = sum(_rows(lengths) for lengths in requests)
    print(f"{len(requests)} requests, {tokens} rows, {batch} at once")
    print("block size  unused slots  us a sequence and step")
    for block_size in _BLOCK_SIZES:
        runs = [run(requests, block_size, batch) for _ in range(3)]
        counts, seconds = runs[0][0], min(seconds for _, seconds in runs)
        print(
            f"{block_size:10d}  {counts.spare / counts.held:11.1%}  "
            f"{seconds / counts.reservations * 1e6:22.1f}"
        )


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit("usage: cache_waste.py LENGTHS [BATCH]")
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 8)
