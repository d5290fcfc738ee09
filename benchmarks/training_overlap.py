"""Finds training prompts in a workload: `python -m benchmarks.training_overlap WORKLOAD`.

WORKLOAD is a file of JSON lines with prompt and schema. It is compared with the prompts that
``guided train`` makes if it is given none, or with those of ``--data``: equal prompts, equal
schemas, runs of eight words. Exits with status 1 if any are found.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from guided.bench import read_workload
from guided.spec import GenerationRequest, JsonSchema, TokenPrompt
from guided.train.prompts import made_prompts, read_prompts

_RUN: Final = 8


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


@dataclass(frozen=True, slots=True)
class Overlap:
    """What occurs in both."""

    prompts: frozenset[str]
    """The words of each prompt, in lower case."""
    schemas: frozenset[str]
    """As JSON with sorted keys."""
    runs: frozenset[str]
    """Eight words in a row."""


def overlap(first: Iterable[GenerationRequest], second: Iterable[GenerationRequest]) -> Overlap:
    """Return the prompts, schemas, and runs of words in prompts that both have."""
    one, other = list(first), list(second)
    said, said_too = ([_words(request) for request in each] for each in (one, other))
    return Overlap(
        prompts=frozenset(map(" ".join, said)) & frozenset(map(" ".join, said_too)),
        schemas=_schemas(one) & _schemas(other),
        runs=_runs(said) & _runs(said_too),
    )


def _words(request: GenerationRequest) -> list[str]:
    prompt = request.prompt
    assert not isinstance(prompt, TokenPrompt), "workloads and answers to train on are texts"
    text = prompt if isinstance(prompt, str) else " ".join(each.content for each in prompt)
    return re.findall(r"\w+", text.lower())


def _schemas(requests: Iterable[GenerationRequest]) -> frozenset[str]:
    constraints = (request.constraint for request in requests)
    return frozenset(
        json.dumps(json.loads(each.text), sort_keys=True)
        for each in constraints
        if isinstance(each, JsonSchema)
    )


def _runs(texts: Iterable[list[str]]) -> frozenset[str]:
    return frozenset(
        " ".join(text[start : start + _RUN])
        for text in texts
        for start in range(len(text) - _RUN + 1)
    )


if __name__ == "__main__":
    main()
