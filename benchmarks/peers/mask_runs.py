"""Has each engine judge the schemas of a mask benchmark."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from benchmarks.peers.adapter import Adapter
from benchmarks.peers.engines import engine
from benchmarks.peers.judging import Job, Judged
from benchmarks.peers.maskbench import Schema, schemas
from benchmarks.peers.tokenizer import ByteLevelTokenizer
from benchmarks.peers.worker import Worker

__all__ = ["built", "judged_by"]


def built(names: list[str], tokenizer: str, *, compact: bool = False) -> list[Adapter]:
    """Return the adapters of engines with a tokenizer, ready for workers to be forked."""
    read = ByteLevelTokenizer(tokenizer)
    adapters = [engine(name, compact=compact) for name in names]
    for adapter in adapters:
        began = time.monotonic()
        adapter.build(read)
        took = time.monotonic() - began
        print(f"{adapter.name} {adapter.version()}: built in {took:.1f} s", file=sys.stderr)
    gc.collect()
    gc.freeze()
    return adapters


def judged_by(options: argparse.Namespace) -> dict[str, dict[str, Judged]]:
    """Return what became of each schema, by engine and name; the options are those of ``masks``."""
    adapters = built(options.engines, options.tokenizer, compact=options.compact)
    workers = [Worker(adapter, options.mem) for adapter in adapters]
    runs: dict[str, dict[str, Judged]] = {adapter.name: {} for adapter in adapters}
    began = time.monotonic()
    with ExitStack() as open_things:
        for worker in workers:
            open_things.callback(worker.stop)
        sink = open_things.enter_context(options.out.open("w")) if options.out else None
        drawn = schemas(options.data, sample=options.sample, seed=options.seed)
        for turn, schema in enumerate(drawn):
            job = Job(
                schema.schema, schema.documents, options.limit, forced=True, warm=options.warm
            )
            turns = [*zip(adapters, workers, strict=True)]
            for adapter, worker in turns[:: -1 if turn % 2 else 1]:
                judged = runs[adapter.name][schema.name] = worker.run(job)
                if sink:
                    print(_line(adapter, schema, judged, options), file=sink, flush=True)
    print(
        f"{len(runs[adapters[0].name])} schemas in {time.monotonic() - began:.1f} s",
        file=sys.stderr,
    )
    return runs


def _line(adapter: Adapter, schema: Schema, judged: Judged, options: argparse.Namespace) -> str:
    about = {
        "engine": adapter.name,
        "version": adapter.version(),
        "tokenizer": Path(options.tokenizer).name,
        "compact": adapter.compact,
        "limit": options.limit,
        "file": schema.name,
        "n_tests": len(schema.documents),
    }
    return json.dumps(about | asdict(judged))
