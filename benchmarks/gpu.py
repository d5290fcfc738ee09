"""Speed on a GPU: `python benchmarks/gpu.py [--shape 8b|tiny] [--device cuda|cpu|...] ...`.

A model of random weights, of the shape of Llama 3.1 8B, runs in the engine: so many requests at
once, each with a prompt and an answer of so many random tokens, first without a constraint, then
with a JSON schema. Prints tokens a second, the time of a step, the share of it that is not the
model call, the peak of the device's memory, and the time of attention alone by each kernel.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, PreTrainedModel

from benchmarks.bare_models import chain
from guided.constraint import ConstraintCompiler
from guided.engine import Engine
from guided.kv.layer_groups import LayerShape
from guided.kv.paged_storage import PagedStorage
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.vocabulary import Vocabulary
from guided.model.attention import AttentionKernel, open_attention
from guided.model.batch import StepBatch, StepOutput
from guided.model.default_model import fetch_default_model
from guided.model.device import choose_device, device_text
from guided.model.load import native_dtype
from guided.model.progress import SilentProgress
from guided.model.runner import ModelRunner
from guided.model.torch_attention import ScoreOptions
from guided.spec import Constraint, Forcing, GenerationRequest, JsonSchema, Sampling

_SHAPES = {
    "8b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}
_SCHEMA = JsonSchema(
    '{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}'
)
"""Of random weights hardly a token ends a string, so both runs make about as many tokens."""


@dataclass
class TimedRunner:
    """A model whose calls are timed, as an engine sees it."""

    inner: ModelRunner
    synchronise: Callable[[], None]
    seconds: float = 0.0
    calls: int = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def forward(self, batch: StepBatch) -> StepOutput:
        began = time.perf_counter()
        output = self.inner.forward(batch)
        self.synchronise()
        self.seconds += time.perf_counter() - began
        self.calls += 1
        return output


def make_model(shape: str, width: int, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """Random weights, made where they are to be."""
    config = LlamaConfig(**_SHAPES[shape], vocab_size=width, max_position_embeddings=8192)
    torch.manual_seed(0)
    with torch.device(device):
        torch.set_default_dtype(dtype)
        try:
            model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
        finally:
            torch.set_default_dtype(torch.float32)
    return model.eval().requires_grad_(False)


def decode(
    runner: TimedRunner, vocabulary: Vocabulary, constraint: Constraint, options: argparse.Namespace
) -> tuple[int, float]:
    """Tokens made and seconds taken by all requests at once."""
    numbers = np.random.default_rng(0)
    prompts = numbers.integers(300, 40_000, (options.requests, options.prompt)).tolist()
    tokens = options.prompt + options.answer + 64
    engine = Engine(
        model_name="random",
        runner=runner,  # type: ignore[arg-type]
        vocabulary=vocabulary,
        context_window=8192,
        render=lambda prompt, *_: tuple(prompts[int(str(prompt))]),
        start=ConstraintCompiler(vocabulary).start,
        max_batch=options.requests,
        cache_tokens=options.requests * tokens,
        step_tokens=options.step_tokens,
        reuse_prefixes=False,
    )
    for number in range(options.requests):
        request = GenerationRequest(
            prompt=str(number),
            constraint=constraint,
            max_tokens=options.answer,
            forcing=Forcing.OFF,
            sampling=Sampling(temperature=1.0, seed=number),
        )
        engine.submit(str(number), request)
    runner.seconds, runner.calls = 0.0, 0
    began, made = time.perf_counter(), 0
    while engine.has_work:
        for finished in engine.step():
            if isinstance(finished.outcome, Exception):
                raise finished.outcome
            made += finished.outcome.usage.output_tokens
    return made, time.perf_counter() - began


def attention_milliseconds(
    kernel: AttentionKernel,
    model: PreTrainedModel,
    sequences: int,
    committed: int,
    new: int,
    synchronise: Callable[[], None],
) -> float:
    """The fastest of ten calls of one layer, behind so many committed tokens each."""
    config, device, dtype = model.config, model.device, model.dtype
    size = config.hidden_size // config.num_attention_heads
    rows = committed + new
    storage = PagedStorage(
        {0: LayerShape(config.num_key_value_heads, size, size)},
        sequences * rows,
        dtype=dtype,
        device=device,
    )
    seen = [chain(committed, new, first_slot=number * rows) for number in range(sequences)]
    attention = open_attention(kernel, seen, dtype=dtype, device=device)
    query = torch.randn(
        sequences * new, config.num_attention_heads, size, device=device, dtype=dtype
    )
    call = partial(attention.attend, query, storage.layers[0], ScoreOptions())
    fastest = float("inf")
    for _ in range(11):
        began = time.perf_counter()
        call()
        synchronise()
        fastest = min(fastest, time.perf_counter() - began)
    return fastest * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=_SHAPES, default="8b")
    parser.add_argument("--tokenizer", help="a folder; without it, that of the default model")
    parser.add_argument("--device", default="cuda", help="as guided serve takes it")
    parser.add_argument(
        "--dtype", choices=["bfloat16", "float16", "float32"], help="else as guided serve chooses"
    )
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--answer", type=int, default=128, help="tokens")
    parser.add_argument("--step-tokens", type=int, default=2048)
    options = parser.parse_args()
    device = choose_device(options.device)
    dtype = native_dtype(device) if options.dtype is None else getattr(torch, options.dtype)
    is_cuda = device.type == "cuda"
    synchronise = partial(torch.cuda.synchronize, device) if is_cuda else lambda: None
    tokenizer = options.tokenizer or fetch_default_model(SilentProgress())
    vocabulary = vocabulary_from_tokenizer(AutoTokenizer.from_pretrained(tokenizer))
    model = make_model(options.shape, len(vocabulary), dtype, device)
    console = Console(width=110)
    console.print(f"{device_text(device)}, {dtype}, {options}")

    kernels = [AttentionKernel.TORCH]
    if is_cuda and dtype != torch.float64 and find_spec("triton") is not None:
        kernels.append(AttentionKernel.TRITON)
    table = Table("run", "kernel", "tokens/s", "steps", "ms a step", "outside of the model call")
    for kernel in kernels:
        inner = ModelRunner(model, vocabulary_size=len(vocabulary), kernel=kernel)
        runner = TimedRunner(inner, synchronise)
        decode(runner, vocabulary, None, options)  # to warm up
        for name, constraint in (("free", None), ("JSON schema", _SCHEMA)):
            made, seconds = decode(runner, vocabulary, constraint, options)
            table.add_row(
                *(name, kernel, f"{made / seconds:.0f}", str(runner.calls)),
                f"{seconds / runner.calls * 1e3:.1f}",
                f"{1 - runner.seconds / seconds:.1%}",
            )
    console.print(table)
    peak = torch.cuda.max_memory_allocated(device) if is_cuda else _peak_resident()
    console.print(
        f"weights {model.num_parameters() * dtype.itemsize >> 20} MiB, peak {peak >> 20} MiB"
    )

    table = Table("attention of one layer, ms", *kernels)
    for sequences, committed, new in ((1, 512, 1), (1, 512, 16), (16, 512, 1), (1, 0, 512)):
        cells = [
            attention_milliseconds(kernel, model, sequences, committed, new, synchronise)
            for kernel in kernels
        ]
        label = f"{sequences} x {new} behind {committed}"
        table.add_row(label, *(f"{cell:.3f}" for cell in cells))
    console.print(table)


def _peak_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
