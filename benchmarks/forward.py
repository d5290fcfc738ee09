"""Measures one forward pass: `python -m benchmarks.forward [MODEL] [--threads N] [--rounds N] ...`.

Prints milliseconds for k new tokens after 200 of each sequence, for one and eight sequences, by
weight format, and for transformers' own forward in bf16 and fp32 in the same run; the fastest of
all rounds, which are interleaved. NUMBA_CPU_NAME=haswell ATEN_CPU_CAPABILITY=avx2
ONEDNN_MAX_CPU_ISA=AVX2 shows what a processor without AVX-512 does.

With one thread it is the thread's own time, so that other programs on the machine do not count;
with more it is wall time. A large model fits in a few formats only: `--formats "own as stored"`.
`--prompt 2000` also measures how fast a prompt is read.

Logits are computed for each of up to 16 tokens of a sequence, as verifying a draft needs them;
`--last-logits` computes those of the last token alone, as llama-bench does for `-p`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import DynamicCache

from benchmarks.bare_models import Ours, Theirs, chain, open_ours, open_stored, open_theirs
from guided.engine.cache_size import StepLimits
from guided.model.cpu import WeightFormat
from guided.model.cpu.instructions import best_instructions
from guided.model.model_files import ModelFiles, find_stored

_COMMITTED = 200
_MOST_LOGITS = 16
"""New tokens of a sequence that all get logits; wider calls read prompts, which need few."""
_NEW = {1: (1, 2, 4, 8, 16, 32, 64, 256), 8: (1, 2, 4, 8)}
_SLOTS = 8 * (_COMMITTED + 256)
_THEIRS = {"transformers bf16": torch.bfloat16, "transformers fp32": torch.float32}
STORED = "own as stored"


def with_logits(new: int, most: int) -> list[int]:
    """Return which of the new tokens of a sequence get logits."""
    return list(range(new)) if new <= most else [new - 1]


def of_ours(model: Ours, sequences: int, new: int, most: int) -> Callable[[], object]:
    """Return a call of our decoder; sequences of more than ``most`` tokens get logits of one."""
    tokens = np.arange(sequences * new) % 1000
    positions = np.tile(np.arange(_COMMITTED, _COMMITTED + new), sequences)
    seen = {
        window: [
            chain(_COMMITTED, new, window=window, first_slot=s * (_COMMITTED + new))
            for s in range(sequences)
        ]
        for window in model.decoder.windows
    }
    rows = [s * new + row for s in range(sequences) for row in with_logits(new, most)]
    return lambda: model.decoder.forward(tokens, positions, seen, model.cache, rows)


def of_theirs(model: Theirs, sequences: int, new: int, most: int) -> Callable[[], object]:
    tokens = (torch.arange(sequences * new) % 1000).view(sequences, new)
    cache = DynamicCache(config=model.module.config)
    with torch.inference_mode():
        model.module(input_ids=torch.zeros(sequences, _COMMITTED).long(), past_key_values=cache)

    rows = torch.tensor(with_logits(new, most))

    def call() -> None:
        with torch.inference_mode():
            model.module(input_ids=tokens, past_key_values=cache, logits_to_keep=rows)
        cache.crop(-new)

    return call


def reading(model: Ours, tokens: int) -> Callable[[], object]:
    """Return a call that reads a whole prompt, in calls as large as an engine's steps."""
    step = StepLimits().step_tokens

    def read() -> None:
        text = model.open()
        for first in range(0, tokens, step):
            text.extend(range(first % 1000, first % 1000 + min(step, tokens - first)), last=1)

    return read


def opened(
    name: str | None, formats: list[str], slots: int
) -> tuple[dict[str, Theirs], dict[str, Ours]]:
    """Open the requested formats, all in memory at once."""
    theirs = {each: open_theirs(name, dtype) for each, dtype in _THEIRS.items() if each in formats}
    ours = {
        f"own {each}": open_ours(name, each, slots=slots)
        for each in WeightFormat
        if f"own {each}" in formats
    }
    if STORED in formats and isinstance(find_stored(name), ModelFiles):
        ours[STORED] = open_stored(name, slots=slots)
    return theirs, ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--widest", type=int, default=256, help="most new tokens of a call")
    every_format = [*_THEIRS, *(f"own {each}" for each in WeightFormat), STORED]
    parser.add_argument(
        "--formats",
        nargs="+",
        choices=every_format,
        default=every_format,
        metavar="FORMAT",
        help="of " + ", ".join(every_format),
    )
    parser.add_argument("--prompt", type=int, metavar="TOKENS", help="time reading a prompt too")
    parser.add_argument("--last-logits", action="store_true", help="as llama-bench -p has them")
    options = parser.parse_args()
    most = 0 if options.last_logits else _MOST_LOGITS
    torch.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    slots = max(_SLOTS, options.prompt or 0)
    theirs, ours = opened(options.model, options.formats, slots)
    console = Console(width=120)
    how = f"{best_instructions()}, {options.threads} threads"
    for sequences, every in _NEW.items():
        widths = [new for new in every if sequences * new <= options.widest]
        table = Table("ms", *(f"{new} new" for new in widths), title=f"{sequences} at once, {how}")
        rows: dict[str, list[str]] = {}
        for new in widths:
            calls = {name: of_theirs(each, sequences, new, most) for name, each in theirs.items()}
            calls |= {name: of_ours(model, sequences, new, most) for name, model in ours.items()}
            for name, fastest in interleaved(calls, options.rounds, clock).items():
                rows.setdefault(name, []).append(f"{fastest * 1e3:.1f}")
        for name, cells in rows.items():
            table.add_row(name, *cells)
        console.print(table)
    if options.prompt is not None:
        prompts = {name: reading(model, options.prompt) for name, model in ours.items()}
        for name, fastest in interleaved(prompts, min(options.rounds, 3), clock).items():
            console.print(
                f"{name}: {options.prompt / fastest:.1f} tokens/s of {options.prompt}, {how}"
            )


def interleaved(
    calls: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Return the seconds of the fastest call of each, without the first call."""
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
