"""Runs the official JSON Schema suite on an engine.

``python -m benchmarks.peers.suite --engine NAME [--draft DRAFT,DRAFT] [--parts PART,PART]``

A test is right when the engine lets the document through and may then stop exactly where the suite
calls it valid. Without a checkout, the copy that the project's own tests use is run.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.peers.engines import ENGINES
from benchmarks.peers.environment import one_thread


def main() -> None:
    options = _options()
    one_thread()
    from benchmarks.peers.mask_runs import built
    from benchmarks.peers.suite_outcomes import JudgedGroup, job_of, read_groups
    from benchmarks.peers.suite_report import report
    from benchmarks.peers.worker import Worker
    from tests.conformance.suite import Part

    (adapter,) = built([options.engine], options.tokenizer)
    worker = Worker(adapter, options.mem)
    try:
        tested = [
            JudgedGroup.of(group, worker.run(job_of(group, options.limit)))
            for draft in options.draft.split(",")
            for part in map(Part, options.parts.split(","))
            for group in read_groups(options.suite, part, draft)
        ]
    finally:
        worker.stop()
    print(f"{adapter.name} {adapter.version()}\n", *report(tested), sep="\n")


def _options() -> argparse.Namespace:
    of = os.environ.get
    parser = argparse.ArgumentParser(description="The official JSON Schema suite, on an engine.")
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument(
        "--suite", type=Path, default=of("JSON_SCHEMA_TEST_SUITE"), help="a checkout"
    )
    parser.add_argument("--tokenizer", default=of("BENCH_TOKENIZER"), help="a folder")
    parser.add_argument("--draft", default="draft2020-12,draft7")
    parser.add_argument("--parts", default="required,format", help="of required, format, optional")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds per group")
    parser.add_argument("--mem", type=float, default=6.0, help="GiB of the engine's process")
    options = parser.parse_args()
    if not options.tokenizer:
        parser.error("--tokenizer is needed")
    return options


if __name__ == "__main__":
    main()
