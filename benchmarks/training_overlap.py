"""What training prompts share with a workload: `python benchmarks/training_overlap.py WORKLOAD`.

WORKLOAD is a file of JSON lines with prompt and schema. Compared are the prompts that are made
where ``guided train`` is given none, or those of ``--data``: equal prompts, equal schemas, runs of
eight words. Ends with status 1 where any are found.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from guided.bench import read_workload
from guided.train.prompts import made_prompts, read_prompts
from guided.train.prompts.overlap import overlap


def main() -> None:
    parser = argparse.ArgumentParser(description="What training prompts share with a workload.")
    parser.add_argument("workload", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    measured = read_workload(options.workload)
    if options.data is None:
        trained = made_prompts(options.prompts, options.seed)
    else:
        trained = read_prompts(options.data)
    found = asdict(overlap(trained.values(), measured.values()))
    print(f"{len(trained)} prompts to train on, {len(measured)} to measure with; in both:")
    for kind, texts in found.items():
        print(f"{kind:>8}: {len(texts)}", *sorted(texts)[:5], sep="\n          ")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
