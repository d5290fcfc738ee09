"""Measures memory of constraints: `python -m benchmarks.memory TOKENIZER DATA [COUNT]`.

DATA is a MaskBench file: gzipped JSON lines of {"name", "schema", "tests"}. Every schema is
compiled and the documents of its tests are walked, mask by mask. Prints the growth of resident
memory by one schema, each in a process of its own that starts without any, and the growth by all of
them in one process with one compiler and its default bounds. COUNT selects about that many schemas,
evenly spread over the file.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from guided.constraint.compiler import ConstraintCompiler
from guided.errors import GuidedError, TokenRejectedError
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.spec import Forcing, JsonOptions, JsonSchema, KeyOrder, Spelling, TokenId

_MIB = 2**20
_OPTIONS = JsonOptions(
    whitespace=None,
    key_order=KeyOrder.ANY,
    spelling=Spelling.ANY,
    max_string_length=None,
    max_number_digits=None,
)
"""The most general format, which needs the most memory."""


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def rows(path: Path) -> Iterator[Any]:
    """Yield the schemas of a MaskBench file with their tests."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def compile_and_walk(compiler: ConstraintCompiler, encode: Callable[[str], Any], row: Any) -> bool:
    """Compile a schema and walk its documents where allowed; returns whether it compiles."""
    try:
        start = compiler.compile(JsonSchema(json.dumps(row["schema"]), _OPTIONS)).start()
        for test in row["tests"]:
            matcher = start
            for token in encode(json.dumps(test["data"])):
                matcher.mask()
                matcher.forced_run(Forcing.CANONICAL)
                try:
                    matcher = matcher.advance(TokenId(token))
                except TokenRejectedError:
                    break
    except GuidedError:
        return False
    return True


def growth_in_child(work: Callable[[], object]) -> int:
    """Return the bytes by which a forked process grows during the work, including garbage."""
    with tempfile.TemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            before = resident()
            work()
            answer.write(str(resident() - before).encode())
            answer.flush()
            os._exit(0)
        os.waitpid(child, 0)
        answer.seek(0)
        return int(answer.read() or 0)


def main(folder: str, data: str, limit: int | None) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    vocabulary = vocabulary_from_tokenizer(tokenizer, end_ids=[tokenizer.eos_token_id])
    compiler = ConstraintCompiler(vocabulary)
    warm_up = {"schema": {"type": "object"}, "tests": [{"data": {"a": [1, "b"]}}]}
    compile_and_walk(compiler, encode, warm_up)
    every = list(rows(Path(data)))
    chosen = every[:: max(1, len(every) // limit)] if limit else every
    gc.collect()
    gc.freeze()

    grown = [
        (growth_in_child(lambda: compile_and_walk(compiler, encode, row)), row["name"])  # noqa: B023
        for row in chosen
    ]
    sizes = np.array([size for size, _ in grown]) / _MIB
    largest, name = max(grown)
    print(f"one schema, MiB: p50 {np.median(sizes):.1f}, p99 {np.percentile(sizes, 99):.1f}")
    print(f"the largest: {largest / _MIB:.1f} ({name})")

    before, peak = resident(), 0
    compiled = 0
    for row in chosen:
        compiled += compile_and_walk(compiler, encode, row)
        peak = max(peak, resident())
    gc.collect()
    print(
        f"{compiled} of {len(chosen)} schemas in one process, MiB: "
        f"grown by {(resident() - before) / _MIB:.0f}, at most by {(peak - before) / _MIB:.0f}"
    )


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        raise SystemExit("usage: memory.py FOLDER-OR-HUB-ID-OF-A-TOKENIZER DATA [COUNT]")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else None)
