"""Compares sets of drafters: `python -m benchmarks.shared_answers WORKLOAD [--sets A,B ...]`.

WORKLOAD is a file of JSON lines, each {"id", "prompt", "schema", "max_tokens"}; without a schema a
request is for free text. `benchmarks/tickets.jsonl` has one schema for all of its requests. They
are answered one at a time, ``--rounds`` times, by one engine for each set; in later rounds the
answers of earlier ones may be drafted. All sets draft by one cost curve, measured at the start, or
read from a file that an engine has stored under `costs/` in the cache folder (``--costs``).

Prints for each set and round the model calls, what became of the drafts, rows that the calls
computed, and seconds by phase.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from guided.bench import read_workload
from guided.constraint import ConstraintCompiler
from guided.decoding import CostCurve
from guided.drafters.named import make_drafters
from guided.engine.call_costs import measure_costs
from guided.engine.engine import Engine
from guided.engine.load import WIDEST_DRAFT
from guided.model.batch import StepBatch, StepOutput
from guided.model.cpu import WeightFormat
from guided.model.load import LoadedModel, load_model
from guided.model.prompt import render_prompt
from guided.model.runner import ModelRunner
from guided.runtime.cores import usable_cores
from guided.spec import GenerationRequest, GenerationResult, Sampling, Usage
from guided.stats import Phase

console = Console(width=150)
_PHASES = (Phase.DRAFT, Phase.SETTLE, Phase.FORWARD)


def main() -> None:
    parser = argparse.ArgumentParser(description="Model calls by set of drafters.")
    parser.add_argument("workload", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int, default=usable_cores())
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--costs", type=Path)
    parser.add_argument("--sets", nargs="+", default=["lookup", "lookup,suffix"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    requests = read_requests(options.workload, options.temperature)
    loaded = load_model(options.model)
    runner = CountedRunner(loaded)
    costs = measure_costs(runner, loaded.context_window)
    if options.costs is not None:
        kept = json.loads(options.costs.read_text(encoding="utf-8"))
        costs = CostCurve.from_measurements(
            {int(tokens): seconds for tokens, seconds in kept.items()}
        )
    console.print("ms of a call by tokens:", {n: round(1e3 * s, 1) for n, s in costs.points})
    columns = ("drafters", "round", "tokens", "calls", "calls a token", "drafted", "accepted")
    table = Table(*columns, "rows", *(f"{phase.value} s" for phase in _PHASES))
    texts: list[list[str]] = []
    for names in options.sets:
        engine = make_engine(loaded, runner, costs, names.split(","))
        for number in range(1, options.rounds + 1):
            engine.reset_counters()
            runner.rows = 0
            results = answers(engine, requests)
            texts.append([result.text for result in results.values()])
            usage = Usage.total(result.usage for result in results.values())
            table.add_row(
                *(names, str(number), str(usage.output_tokens), str(usage.model_calls)),
                f"{usage.model_calls / usage.output_tokens:.3f}",
                *(str(usage.drafted_tokens), str(usage.accepted_tokens), str(runner.rows)),
                *(f"{engine.stats().phases[phase]:.2f}" for phase in _PHASES),
            )
    console.print(table)
    equal = [sum(map(str.__eq__, each, texts[0])) for each in texts]
    console.print(f"answers that equal the first ones, of {len(texts[0])}:", equal)


class CountedRunner(ModelRunner):
    """Counts the tokens that it computes."""

    def __init__(self, loaded: LoadedModel) -> None:
        own = WeightFormat.BF16 if loaded.module.dtype == torch.bfloat16 else WeightFormat.FP32
        size = len(loaded.vocabulary)
        super().__init__(loaded.module, vocabulary_size=size, weights=own)
        self.rows = 0

    def forward(self, batch: StepBatch) -> StepOutput:
        self.rows += len(batch.tokens)
        return super().forward(batch)


def make_engine(
    loaded: LoadedModel, runner: ModelRunner, costs: CostCurve, names: list[str]
) -> Engine:
    """Return an engine with drafters of these names."""
    return Engine(
        model_name=loaded.name,
        runner=runner,
        vocabulary=loaded.vocabulary,
        context_window=loaded.context_window,
        render=partial(render_prompt, loaded),
        start=ConstraintCompiler(loaded.vocabulary).start,
        drafters=make_drafters([name for name in names if name != "none"], loaded.vocabulary),
        widest_draft=WIDEST_DRAFT,
        costs=costs,
        reuse_prefixes=False,
    )


def read_requests(path: Path, temperature: float) -> dict[str, GenerationRequest]:
    """Return the requests of a file, each with a seed of its own."""
    return {
        name: replace(request, sampling=Sampling(temperature=temperature, seed=number))
        for number, (name, request) in enumerate(read_workload(path).items())
    }


def answers(
    engine: Engine, requests: Mapping[str, GenerationRequest]
) -> dict[str, GenerationResult]:
    """Answer one request after the other."""
    results = {}
    for name, request in requests.items():
        engine.submit(name, request)
        while engine.has_work:
            for ended in engine.step():
                if not isinstance(ended.outcome, GenerationResult):
                    raise ended.outcome
                results[name] = ended.outcome
    return results


if __name__ == "__main__":
    main()
