"""Time of one forward pass: `python benchmarks/forward.py [MODEL] [--threads N] [--rounds N] ...`.

Milliseconds for k new tokens behind 200 of each sequence, one and eight sequences, by weight
format, beside transformers' own forward in bf16 and fp32 in the same run; the fastest of all
rounds, which are interleaved. NUMBA_CPU_NAME=haswell ATEN_CPU_CAPABILITY=avx2
ONEDNN_MAX_CPU_ISA=AVX2 shows what a processor without AVX-512 does.

With one thread it is the thread's own time, so that other programs on the machine do not count;
with more it is wall time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import DynamicCache

from benchmarks.bare_models import Ours, Theirs, chain, open_ours, open_stored, open_theirs
from guided.model.cpu import WeightFormat
from guided.model.cpu.instructions import chosen
from guided.model.model_files import ModelFiles, find_stored

_COMMITTED = 200
_NEW = {1: (1, 2, 4, 8, 16, 32, 64, 256), 8: (1, 2, 4, 8)}
_SLOTS = 8 * (_COMMITTED + 256)


def of_ours(model: Ours, sequences: int, new: int) -> Callable[[], object]:
    """One call; as in use, few logits of wide calls are wanted."""
    tokens = np.arange(sequences * new) % 1000
    positions = np.tile(np.arange(_COMMITTED, _COMMITTED + new), sequences)
    seen = {
        window: [
            chain(_COMMITTED, new, window=window, first_slot=s * (_COMMITTED + new))
            for s in range(sequences)
        ]
        for window in model.decoder.windows
    }
    rows = range(len(tokens)) if new <= 16 else [len(tokens) - 1]
    return lambda: model.decoder.forward(tokens, positions, seen, model.cache, rows)


def of_theirs(model: Theirs, sequences: int, new: int) -> Callable[[], object]:
    tokens = (torch.arange(sequences * new) % 1000).view(sequences, new)
    cache = DynamicCache(config=model.module.config)
    with torch.inference_mode():
        model.module(input_ids=torch.zeros(sequences, _COMMITTED).long(), past_key_values=cache)

    rows = torch.arange(new) if new <= 16 else torch.tensor([new - 1])

    def call() -> None:
        with torch.inference_mode():
            model.module(input_ids=tokens, past_key_values=cache, logits_to_keep=rows)
        cache.crop(-new)

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--widest", type=int, default=256, help="most new tokens of a call")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    theirs = {
        f"transformers {name}": open_theirs(options.model, dtype)
        for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32))
    }
    ours: dict[str, Ours] = {
        each: open_ours(options.model, each, slots=_SLOTS) for each in WeightFormat
    }
    if isinstance(find_stored(options.model), ModelFiles):
        ours["as stored"] = open_stored(options.model, slots=_SLOTS)
    console = Console(width=120)
    how = f"{chosen()}, {options.threads} threads"
    for sequences, every in _NEW.items():
        widths = [new for new in every if sequences * new <= options.widest]
        table = Table("ms", *(f"{new} new" for new in widths), title=f"{sequences} at once, {how}")
        rows: dict[str, list[str]] = {}
        for new in widths:
            calls = {name: of_theirs(each, sequences, new) for name, each in theirs.items()}
            calls |= {f"own {name}": of_ours(model, sequences, new) for name, model in ours.items()}
            for name, fastest in interleaved(calls, options.rounds, clock).items():
                rows.setdefault(name, []).append(f"{fastest * 1e3:.1f}")
        for name, cells in rows.items():
            table.add_row(name, *cells)
        console.print(table)


def interleaved(
    calls: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Seconds of the fastest call of each, after one that does not count."""
    fastest = dict.fromkeys(calls, float("inf"))
    for number in range(rounds + 1):
        for name, call in calls.items():
            began = clock()
            call()
            if number:
                fastest[name] = min(fastest[name], clock() - began)
    return fastest


if __name__ == "__main__":
    main()
