"""Measures the effect of hostile inputs on a stream that runs beside them.

`python -m benchmarks.neighbour_gap [--model MODEL] [--only WORD] [--copies N] [--server]`

Prints for each input the pieces of text that the neighbour's stream gets per second, and its median
and longest gaps, each next to its usual value; the longest gap in processor time of the engine's
process, which other processes do not lengthen; how far memory grew, and what became of the input.
With ``--server`` a real server answers all of them, memory is reported for its two processes, and
calls of ``GrammarService`` and long prompts are included. Without ``--model`` the model is tiny
with random weights, so that steps take little and a pause shows; in process it has the vocabulary
of the default model.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from os import getpid
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from guided.constraint import ConstraintCompiler
from guided.drafters.named import default_drafters, make_drafters
from guided.engine import Engine, load_engine
from guided.model.load import load_model
from guided.model.prompt import render_prompt
from guided.model.runner import ModelRunner
from guided_service.garbage import Garbage
from tests.kit.hostile_calls import HOSTILE_CALLS, hostile_caller
from tests.kit.hostile_constraints import HOSTILE
from tests.kit.neighbour import Gaps, gaps_beside
from tests.kit.processes import facts_of
from tests.kit.served_neighbour import served_gaps
from tests.kit.tiny_model import save_tiny_model
from tests.service.server_process import REAL_SERVER, serving

_START_SECONDS = 600.0


@dataclass(frozen=True)
class Row:
    """One input and its neighbour."""

    name: str
    usual: Gaps
    beside: Gaps
    grown: tuple[float, ...]
    """In mebibytes, by process."""

    def __str__(self) -> str:
        rates = f"{self.beside.rate:7.1f} {self.usual.rate:7.1f}"
        figures = [
            *(self.beside.median, self.usual.median),
            *(self.beside.longest, self.usual.longest),
            *(max(self.beside.work), max(self.usual.work)),
        ]
        told = " ".join(f"{1e3 * seconds:7.1f}" for seconds in figures)
        grown = " ".join(f"{each:6.0f}" for each in self.grown)
        wall, outcome = self.beside.wall, self.beside.outcome
        return f"{self.name:46} {rates} {told} {wall:7.2f} {grown}  {outcome}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a model to load; a tiny random one otherwise")
    parser.add_argument("--only", default="", help="inputs whose names have this in them")
    parser.add_argument("--copies", type=int, default=1, help="answers in process, of each")
    parser.add_argument("--tokens", type=int, default=24, help="tokens of each of them")
    parser.add_argument("--server", action="store_true", help="through a real server")
    arguments = parser.parse_args()
    processes = ("server", "engine") if arguments.server else ("MiB",)
    pairs = " ".join(f"{name:>7} {'usual':>7}" for name in ("a sec", "p50 ms", "p100", "work"))
    print(f"{'':46} {pairs} {'wall s':>7} {' '.join(f'{name:>6}' for name in processes)}  outcome")
    rows = served_rows(arguments) if arguments.server else rows_in_process(arguments)
    worst = 0.0
    for row in rows:
        print(row, flush=True)
        worst = max(worst, max(row.beside.work) - max(row.usual.work))
    print(f"at the most {1e3 * worst:.0f} ms of work more than usual between two pieces of text")


def rows_in_process(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each constraint, worked on beside a stream of one engine."""
    engine = load_engine(arguments.model) if arguments.model else tiny_engine()
    # As in the engine's process; here old garbage is collected between the constraints.
    garbage = Garbage()
    gaps_beside(engine, None)
    for name, make in HOSTILE.items():
        if arguments.only not in name:
            continue
        garbage.collect(is_idle=True)
        usual, before = gaps_beside(engine, None), facts_of(getpid()).mebibytes
        copies, tokens = arguments.copies, arguments.tokens
        beside = gaps_beside(engine, make(), copies=copies, max_tokens=tokens)
        yield Row(name, usual, beside, (facts_of(getpid()).mebibytes - before,))


def served_rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each call, made beside a stream of one server."""
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or save_tiny_model(Path(folder) / "model")
        settings = {"model": f"{model}"}
        log = Path(folder) / "log"
        with serving(REAL_SERVER, log, settings, timeout=_START_SECONDS) as server:
            served_gaps(server, None)
            for name in HOSTILE_CALLS:
                if arguments.only not in name:
                    continue
                usual = served_gaps(server, None)
                processes = server.process.pid, server.engine_process_id()
                before = [facts_of(each).mebibytes for each in processes]
                with hostile_caller(server.address, name) as call:
                    beside = served_gaps(server, call)
                after = [facts_of(each).mebibytes for each in processes]
                grown = tuple(b - a for a, b in zip(before, after, strict=True))
                yield Row(name, usual, beside, grown)


def tiny_engine() -> Engine:
    """Return an engine with a tiny model, random weights and a real vocabulary."""
    texts = load_model(None)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(texts.vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=4096,
    )
    model = AutoModelForCausalLM.from_config(config).eval()
    compiler = ConstraintCompiler(texts.vocabulary)
    compiler.rehearse()
    return Engine(
        model_name="tiny",
        runner=ModelRunner(model, vocabulary_size=len(texts.vocabulary)),
        vocabulary=texts.vocabulary,
        context_window=4096,
        render=partial(render_prompt, texts),
        start=compiler.start,
        drafters=make_drafters(default_drafters(reuse_prefixes=True), texts.vocabulary),
        widest_draft=8,
    )


if __name__ == "__main__":
    main()
