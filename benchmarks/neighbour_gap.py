"""How long a running stream waits while hostile constraints are compiled and followed beside it.

`python -m benchmarks.neighbour_gap [--model MODEL] [--only WORD] [--copies N]`

Prints for each constraint the median and the longest gap of the neighbour's stream and its usual
longest gap; the same of the processor time in a gap, which other processes do not make longer; how
far memory grew, and what became of the constraint. Without ``--model`` the model is a tiny one
with random weights and the vocabulary of the default model, so that steps take little and a pause
shows.
"""

from __future__ import annotations

import argparse
import resource
from functools import partial
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
from tests.kit.hostile_constraints import HOSTILE
from tests.kit.neighbour import gaps_beside

_MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="a model to load; a tiny random one otherwise")
    parser.add_argument("--only", default="", help="constraints whose names have this in them")
    parser.add_argument("--copies", type=int, default=1, help="answers with the constraint")
    parser.add_argument("--tokens", type=int, default=24, help="tokens of each of them")
    arguments = parser.parse_args()
    engine = load_engine(arguments.model) if arguments.model else tiny_engine()
    # As in the engine's process; old garbage is then collected between the constraints.
    garbage = Garbage()
    gaps_beside(engine, None)
    heads = f"{'p50':>7} {'p100':>7} {'usual':>7} {'work':>7} {'usual':>7} {'wall s':>7} {'MiB':>6}"
    print(f"{'milliseconds':40} {heads}  outcome")
    worst = 0.0
    for name, make in HOSTILE.items():
        if arguments.only not in name:
            continue
        garbage.collect(is_idle=True)
        usual, before = gaps_beside(engine, None), resident()
        gaps = gaps_beside(engine, make(), copies=arguments.copies, max_tokens=arguments.tokens)
        worst = max(worst, max(gaps.work) - max(usual.work))
        figures = [gaps.median, gaps.longest, usual.longest, max(gaps.work), max(usual.work)]
        told = " ".join(f"{1e3 * seconds:7.1f}" for seconds in figures)
        grown = (resident() - before) / _MIB
        print(f"{name:40} {told} {gaps.wall:7.2f} {grown:6.0f}  {gaps.outcome}", flush=True)
    print(f"at the most {1e3 * worst:.0f} ms of work more than usual between two pieces of text")


def tiny_engine() -> Engine:
    """An engine around a tiny model with random weights and a real vocabulary."""
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


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
