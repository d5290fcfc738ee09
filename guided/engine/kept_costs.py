"""What model calls cost, kept from one start to the next, so that it need not be measured again.

A file in the cache folder holds the seconds of one model on one machine: its name is a digest of
all that they depend on. The first start of a day makes some calls more and keeps the least times.
What was measured while others kept the processor busy serves one start and is not kept.
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

from guided.decoding.cost_curve import CostCurve
from guided.engine.calibration import call_sizes, measure_seconds
from guided.engine.footprint import Footprint
from guided.model.cache import cache_folder
from guided.model.device import device_text
from guided.model.model_files import ModelFiles
from guided.model.runner import ModelRunner
from guided.runtime.kernel_cache import digest_of_sources

__all__ = ["costs_here"]

_TOLD_OF_A_PROCESSOR: Final = ("model name", "flags", "Features", "CPU part")
_DAY: Final = 86_400.0
"""Seconds."""
_log: Final = logging.getLogger(__name__)


def costs_here(
    runner: ModelRunner, context_window: int, files: ModelFiles, footprint: Footprint
) -> CostCurve:
    """The costs of a model's calls on this machine: measured, or kept and refined."""
    file = cache_folder() / "costs" / f"{_digest(runner, context_window, files, footprint)}.json"
    seconds = _read(file, call_sizes(context_window))
    if seconds is None or _is_old(file):
        seconds = measure_seconds(runner, context_window, seconds)
        if not _is_busy():
            _write(file, seconds)
    return CostCurve.through(seconds)


def _digest(
    runner: ModelRunner, context_window: int, files: ModelFiles, footprint: Footprint
) -> str:
    """Tells apart whatever makes calls faster or slower."""
    about = [
        files.config.to_json_string(),
        files.checkpoint.numbers,
        footprint.weight_format,
        footprint.streams,
        str(runner.shape.dtype),
        runner.description,
        context_window,
        device_text(runner.shape.device),
        _processor(),
        torch.get_num_threads(),
        torch.__version__,
        digest_of_sources().hex(),
    ]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32]


def _processor() -> list[str]:
    """What the system tells of the first core."""
    try:
        first = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0]
    except OSError:
        return []
    return [line for line in first.splitlines() if line.startswith(_TOLD_OF_A_PROCESSOR)]


def _read(file: Path, sizes: Sequence[int]) -> dict[int, float] | None:
    """The seconds by size, or ``None`` where there are none, or none that can be read."""
    try:
        kept = json.loads(file.read_bytes())
        seconds = {int(size): float(each) for size, each in kept.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return None
    is_whole = list(seconds) == list(sizes) and all(0 < each < inf for each in seconds.values())
    return seconds if is_whole else None


def _is_busy() -> bool:
    """Whether more wanted to run in the last minute than there are cores."""
    return os.getloadavg()[0] > len(os.sched_getaffinity(0))


def _is_old(file: Path) -> bool:
    try:
        return not 0 <= time.time() - file.stat().st_mtime < _DAY
    except OSError:
        return True


def _write(file: Path, seconds: Mapping[int, float]) -> None:
    """Whole or not at all; a cache that cannot be written to costs the next start its seconds."""
    partial = file.with_suffix(f".{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(seconds), "utf-8")
        partial.replace(file)
    except OSError as error:
        _log.info("what model calls cost is not kept: %s", error)
