"""What model calls cost on this machine, so that tokens are drafted only where they pay.

Times are measured at the first start and kept in the cache folder, one file for each model and
machine: its name is a digest of everything that the times depend on. They need not be exact: times
that are up to 10 % too long change the calls of a workload by 1 %. But times measured while other
processes kept the processor busy may be far off, so they serve one start and are not kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Final

import torch

from guided.decoding.draft_budget import CostCurve
from guided.engine.memory_plan import Footprint
from guided.kv.block_cache import BlockCache, LayerGroup
from guided.kv.sequence_blocks import SequenceBlocks
from guided.model.batch import Segment, StepBatch
from guided.model.cache import cache_folder
from guided.model.cpu.instructions import best_instructions
from guided.model.device import CPU, device_text
from guided.model.model_files import ModelFiles
from guided.model.runner import ModelRunner
from guided.runtime.kernel_cache import digest_of_sources
from guided.spec import TokenId

__all__ = ["call_sizes", "load_or_measure_costs", "measure_costs"]

_SIZES = (1, 2, 4, 8, 9, 12, 16, 24, 32, 64, 128)
"""Closer together where wider calls use other kernels, see ``guided.model.cpu``."""
_COMMITTED = 128
"""Rows in the cache before the tokens of a call, as in the middle of an answer."""
_BLOCK_SIZE = 8
_ROUNDS = 2
"""The least number of rounds, however long they take."""
_NARROWEST = 16
"""Sizes up to this one are timed in all rounds: they decide what a single answer drafts."""
_IMPROVEMENT = 0.98
"""A time below this share of the least so far says that the least is not known yet."""
_CLOCK_READS = 1000
"""Reads of the processor's time, some tenths of a millisecond in all, that must see it advance."""
_TIME_LIMIT = 2.0
"""Seconds after which no further round begins."""


def call_sizes(context_window: int) -> list[int]:
    """Return the sizes to time, which leave room for the committed rows before them."""
    return [size for size in _SIZES if size <= context_window - _num_committed(context_window)]


def measure_costs(runner: ModelRunner, context_window: int) -> CostCurve:
    """Measure the cost curve now, without keeping it."""
    return CostCurve.from_measurements(_measure_seconds(runner, context_window))


def _measure_seconds(runner: ModelRunner, context_window: int) -> dict[int, float]:
    """Time model calls of several sizes; takes some dozen calls, fewer where they are slow.

    The least time of each size counts, because whatever else runs on the machine only adds to it.
    A round times all sizes, so that a busy spell affects them alike; if a round took long, the next
    one times only the narrow sizes. Rounds repeat until one of them finds no lower time.
    """
    timer = _Timer(runner, context_window)
    started = time.perf_counter()
    least = dict.fromkeys(timer.sizes, inf)
    rounds, improved = 0, True
    while rounds < _ROUNDS or (improved and time.perf_counter() - started <= _TIME_LIMIT):
        rounds, improved = rounds + 1, False
        is_slow = time.perf_counter() - started > _TIME_LIMIT
        for size in [each for each in timer.sizes if each <= _NARROWEST or not is_slow]:
            took = timer.time(size)
            improved = improved or took < _IMPROVEMENT * least[size]
            least[size] = min(least[size], took)
    return {size: timer.clock_per_second * each for size, each in least.items()}


def _num_committed(context_window: int) -> int:
    return min(_COMMITTED, context_window // 2)


class _Timer:
    """Times model calls over a sequence that already has some tokens in the cache.

    A call may have to wait for a processor that other processes use as well, so by the clock one
    size may seem many times slower than another. The process's own time counts instead, where that
    covers the whole of a call.
    """

    def __init__(self, runner: ModelRunner, context_window: int) -> None:
        committed, self.sizes = _num_committed(context_window), call_sizes(context_window)
        blocks = -(-(committed + self.sizes[-1]) // _BLOCK_SIZE)
        groups = [LayerGroup(blocks, window) for window in runner.windows]
        cache = BlockCache(groups, _BLOCK_SIZE, reuse_prefixes=False)
        runner.open_storages([pool.num_slots for pool in cache.pools])
        self._runner = runner
        is_all_here = runner.shape.device == CPU and len(runner.layers_by_rank) == 1
        self._uses_process_time = is_all_here and _has_fine_process_time()
        self.clock_per_second = inf if self._uses_process_time else 1.0
        """Clock seconds for each second that ``time`` returns: the least ratio of all calls."""
        self._sequence = cache.open()
        # Calls are timed over rows in the cache: attention reads them in every call of an answer.
        runner.forward(StepBatch((_chain(self._sequence, committed, trunk_length=committed),)))
        self._sequence.commit(range(committed), [TokenId(0)] * committed)
        if runner.shape.device.type == "cuda":
            # The first call of a size may compile for seconds, which no later call does.
            for size in self.sizes:
                self.time(size)

    def time(self, size: int) -> float:
        """Return the seconds of one call over this many tokens, of all threads; keeps no rows."""
        # Packed before the clocks start, because an engine packs in a phase of its own.
        batch = StepBatch((_chain(self._sequence, size),))
        clock_start, process_start = time.perf_counter(), time.process_time()
        self._runner.forward(batch)
        self._runner.wait()
        process_seconds = time.process_time() - process_start
        clock_seconds = time.perf_counter() - clock_start
        # Nothing is kept, so that every call runs over the same rows and after the same state.
        self._sequence.commit((), ())
        if not self._uses_process_time:
            return clock_seconds
        ratio = clock_seconds / process_seconds
        self.clock_per_second = min(self.clock_per_second, ratio)
        return process_seconds


def _has_fine_process_time() -> bool:
    """Whether the system can time short calls; some systems count in steps of 10 ms."""
    began = time.process_time()
    return any(time.process_time() != began for _ in range(_CLOCK_READS))


def _chain(sequence: SequenceBlocks, size: int, *, trunk_length: int = 1) -> Segment:
    """Make a chain of ``size`` tokens with a choice after each, as in a draft."""
    return Segment(
        num_committed=sequence.committed,
        reservations=sequence.reserve(size),
        tokens=(TokenId(0),) * size,
        depths=tuple(range(size)),
        ancestors=None,
        nodes_needing_logits=tuple(range(size)),
        recurrence=sequence.recurrence,
        trunk_length=trunk_length,
    )


_PROCESSOR_FIELDS: Final = ("model name", "flags", "Features", "CPU part")
_log: Final = logging.getLogger(__name__)


def load_or_measure_costs(
    runner: ModelRunner, context_window: int, files: ModelFiles, footprint: Footprint
) -> CostCurve:
    """Return the costs of a model's calls here, measured where no earlier start kept them."""
    file = cache_folder() / "costs" / f"{_digest(runner, context_window, files, footprint)}.json"
    # A file with other sizes, as from another context window, counts as none.
    seconds = _read(file, call_sizes(context_window))
    if seconds is None:
        seconds = _measure_seconds(runner, context_window)
        if not _is_busy():
            _write(file, seconds)
    return CostCurve.from_measurements(seconds)


def _digest(
    runner: ModelRunner, context_window: int, files: ModelFiles, footprint: Footprint
) -> str:
    """Return a digest of everything that makes calls faster or slower."""
    # Sources as well: kernels of another version take different times.
    key = [
        files.config.to_json_string(),
        files.checkpoint.numbers,
        footprint.weight_format,
        str(runner.shape.dtype),
        runner.description,
        context_window,
        device_text(runner.shape.device),
        _processor(),
        best_instructions(),
        torch.get_num_threads(),
        torch.__version__,
        digest_of_sources().hex(),
    ]
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]


def _processor() -> list[str]:
    """Return the system's description of the first core."""
    try:
        first = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0]
    except OSError:
        return []
    return [line for line in first.splitlines() if line.startswith(_PROCESSOR_FIELDS)]


def _read(file: Path, sizes: Sequence[int]) -> dict[int, float] | None:
    """Return the seconds by size, or ``None`` where there are none that can be read."""
    try:
        kept = json.loads(file.read_bytes())
        seconds = {int(size): float(each) for size, each in kept.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return None
    is_whole = list(seconds) == list(sizes) and all(0 < each < inf for each in seconds.values())
    return seconds if is_whole else None


def _is_busy() -> bool:
    """Whether more processes wanted to run in the last minute than there are cores."""
    # The measurement itself keeps the cores busy, but not for a minute.
    return os.getloadavg()[0] > len(os.sched_getaffinity(0))


def _write(file: Path, seconds: Mapping[int, float]) -> None:
    """Write all or nothing; a cache that cannot be written costs the next start its seconds."""
    # Written next to it and renamed, so that no other process reads half of it.
    partial = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(seconds), "utf-8")
        partial.replace(file)
    except OSError as error:
        _log.info("what model calls cost is not kept: %s", error)
