"""Compares masks of real schemas: what is right, how long it takes, what is forced.

``python -m benchmarks.peers.masks --engine NAME`` or ``--compare NAME,NAME``

For every schema an engine compiles it, and every document is walked token by token: mask, look up
the real token, accept. Two engines take turns schema by schema, on one thread each. Data are
MaskBench's; what the figures are is in benchmarks/README.md.
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
    from benchmarks.peers.comparison import comparison
    from benchmarks.peers.mask_report import report
    from benchmarks.peers.mask_runs import judged_by

    runs = judged_by(options)
    print(*report(runs, options.limit), sep="\n")
    if len(runs) == 2:
        print(*comparison(runs), sep="\n")


def _options() -> argparse.Namespace:
    of = os.environ.get
    parser = argparse.ArgumentParser(description="Masks of real schemas, beside other engines.")
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument("--compare", metavar="A,B", help="two engines, in turns")
    parser.add_argument("--data", type=Path, default=of("MASKBENCH_DATA"))
    parser.add_argument("--tokenizer", default=of("BENCH_TOKENIZER"), help="a folder")
    parser.add_argument("--sample", type=int, default=0, help="how many schemas; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds per schema")
    parser.add_argument("--mem", type=float, default=6.0, help="GiB of each engine's process")
    parser.add_argument("--compact", action="store_true", help="no white space between tokens")
    parser.add_argument("--warm", action="store_true", help="time a second walk of each document")
    parser.add_argument("--out", type=Path, help="JSON lines, one per schema and engine")
    options = parser.parse_args()
    options.engines = options.compare.split(",") if options.compare else [options.engine]
    if not options.data or not options.tokenizer or not options.engines[0]:
        parser.error("--data, --tokenizer and one of --engine and --compare are needed")
    if len(options.engines) > 2 or not set(options.engines) <= ENGINES.keys():
        parser.error(f"--compare takes two of {', '.join(ENGINES)}")
    return options


if __name__ == "__main__":
    main()
