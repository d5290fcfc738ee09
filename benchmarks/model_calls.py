"""Counts model calls: `python -m benchmarks.model_calls [WORKLOAD] [--model MODEL]`.

WORKLOAD is a file of JSON lines, each {"id", "prompt", "schema", "max_tokens"}; the default is the
requests of the demo. Each is answered greedily in compact JSON, one at a time, in four ways:
plainly (one call per token), with strict forced runs, with canonical ones, and with canonical ones
and drafts; or only in the ways that ``--ways`` names. The call of the prompt counts.

Prints the calls of each request and in total, what became of the drafts, and how often each kind of
draft was right.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from examples.demo_requests import REQUESTS
from guided.bench import read_workload
from guided.constraint import ConstraintCompiler
from guided.decoding import CostCurve, DraftContext, DraftRequest
from guided.drafters import LookupDrafter
from guided.drafters.lookup import LookupDraftState
from guided.engine.call_costs import measure_costs
from guided.engine.engine import Engine
from guided.engine.load import WIDEST_DRAFT
from guided.masks.vocabulary import Vocabulary
from guided.model.load import LoadedModel, load_model
from guided.model.prompt import render_prompt
from guided.model.runner import ModelRunner
from guided.runtime.cores import usable_cores
from guided.spec import Forcing, GenerationRequest, GenerationResult, Usage

console = Console(width=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="Model calls of a workload.")
    parser.add_argument("workload", type=Path, nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"])
    names = [forcing.value for forcing in Forcing]
    parser.add_argument("--ways", nargs="+", choices=names, default=names, help="without drafts")
    parser.add_argument("--threads", type=int, default=usable_cores())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dtype = None if options.dtype is None else getattr(torch, options.dtype)
    loaded = load_model(options.model, dtype=dtype)
    runner = ModelRunner(loaded.module, vocabulary_size=len(loaded.vocabulary))
    requests = read_requests(options.workload)
    costs = measure_costs(runner, loaded.context_window)
    console.print("ms of a call by tokens:", {n: round(1e3 * s, 1) for n, s in costs.points})

    drafter = Recorded(loaded.vocabulary)
    engine = build_engine(loaded, runner, None, drafter)
    ways = {
        forcing.value: answers(engine, requests, forcing) for forcing in map(Forcing, options.ways)
    }
    engine = build_engine(loaded, runner, costs, drafter)
    ways["drafts"] = answers(engine, requests, Forcing.CANONICAL)
    print_calls(ways)
    print_kinds(drafter.draft_states)


def read_requests(path: Path | None) -> dict[str, GenerationRequest]:
    """Return the requests of a file, or those of the demo."""
    if path is not None:
        return dict(read_workload(path))
    return {f"demo {number}": r.specification for number, r in enumerate(REQUESTS, start=1)}


class Recorded:
    """A lookup drafter that keeps the draft_states that it opens."""

    name = "lookup"
    wants_hidden_states = False
    widths = ()

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._drafter = LookupDrafter(vocabulary)
        self.draft_states: list[LookupDraftState] = []

    def open(self, context: DraftContext) -> LookupDraftState:
        draft_state = self._drafter.open(context)
        self.draft_states.append(draft_state)
        return draft_state

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        self._drafter.propose(drafts)


def build_engine(
    loaded: LoadedModel, runner: ModelRunner, costs: CostCurve | None, drafter: Recorded
) -> Engine:
    """Build an engine that drafts if it has costs."""
    return Engine(
        model_name=loaded.name,
        runner=runner,
        vocabulary=loaded.vocabulary,
        context_window=loaded.context_window,
        render=partial(render_prompt, loaded),
        start=ConstraintCompiler(loaded.vocabulary).start,
        drafters=() if costs is None else (drafter,),
        widest_draft=0 if costs is None else WIDEST_DRAFT,
        costs=costs,
    )


def answers(
    engine: Engine, requests: Mapping[str, GenerationRequest], forcing: Forcing
) -> dict[str, GenerationResult]:
    """Answer one request after the other."""
    results = {}
    started = time.monotonic()
    for name, request in requests.items():
        engine.submit(name, replace(request, forcing=forcing))
        while engine.has_work:
            for ended in engine.step():
                if not isinstance(ended.outcome, GenerationResult):
                    raise ended.outcome
                results[name] = ended.outcome
    console.print(f"{len(requests)} answers: {time.monotonic() - started:.1f} s")
    return results


def print_calls(ways: Mapping[str, Mapping[str, GenerationResult]]) -> None:
    """Print the model calls of each request and in total, and the fate of the last way's drafts."""
    table = Table(
        *("request", "tokens", *ways, "drafted", "accepted", "rate", "accepted a call", "corrected")
    )
    for name in ways["drafts"]:
        table.add_row(name, *_cells([results[name].usage for results in ways.values()]))
    totals = [Usage.total(result.usage for result in results.values()) for results in ways.values()]
    table.add_section()
    table.add_row("in total", *_cells(totals))
    of_first = [f"{usage.model_calls / totals[0].model_calls:.3f}" for usage in totals]
    table.add_row(f"of {next(iter(ways))}", "", *of_first)
    a_token = [f"{usage.model_calls / usage.output_tokens:.3f}" for usage in totals]
    table.add_row("calls a token", "", *a_token)
    console.print(table)
    for name, results in ways.items():
        equal = sum(results[key].text == last.text for key, last in ways["drafts"].items())
        console.print(f"{equal} of {len(results)} answers of {name} equal those with drafts")


def _cells(usages: list[Usage]) -> list[str]:
    last = usages[-1]
    return [
        str(last.output_tokens),
        *(str(usage.model_calls) for usage in usages),
        str(last.drafted_tokens),
        str(last.accepted_tokens),
        f"{last.acceptance_rate:.2f}",
        f"{last.mean_accepted_length:.2f}",
        f"{last.correction_rate:.2f}",
    ]


def print_kinds(draft_states: Iterable[LookupDraftState]) -> None:
    """Print how often each kind of draft was right; kinds that exclude each other count as one."""
    judged: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for draft_state in draft_states:
        judged.update(draft_state.rates.judged)
        accepted.update(draft_state.rates.accepted)
    table = Table("kind of draft", "judged", "accepted", "rate")
    for kind, hits in accepted.most_common():
        table.add_row(kind, f"{judged[kind]:.0f}", str(hits), f"{hits / judged[kind]:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
