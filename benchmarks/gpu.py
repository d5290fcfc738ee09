"""Measures a GPU: `python -m benchmarks.gpu [--shape 8b|tiny] [--device cuda|cpu|...] ...`.

A model of random weights, in the shape of Llama 3.1 8B, runs in the engine: a number of requests at
once, each with a prompt and an answer of random tokens, by turns without a constraint and with a
JSON schema. Prints how fast prompts are read; then, for the steps after all prompts were read,
tokens per second, the time of a step and of its parts (the masks are found while the device
computes), and how much longer a step with the schema takes; the peak of the device's memory, and
the time of attention alone by each kernel. Of several rounds those with the shortest steps are
shown.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, PreTrainedModel

from benchmarks.bare_models import chain
from guided.constraint import ConstraintCompiler
from guided.decoding.device_draw import DeviceDraw
from guided.engine import Engine
from guided.engine.compile_queue import StartMatcher
from guided.engine.results import Finished
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
from guided.stats import EngineStats, Phase

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


_FEWEST_STEPS = 20
"""With fewer, the figures mean nothing."""


_LETTERS = 16
"""More than the average length of a random token, so that no answer ends while it is measured."""


def schema(answer: int) -> JsonSchema:
    """Return a schema whose answers are longer than this many random tokens."""
    text = {"type": "string", "minLength": _LETTERS * answer}
    return JsonSchema(
        json.dumps({"type": "object", "properties": {"text": text}, "required": ["text"]})
    )


@dataclass
class TimedRunner:
    """A model that times the reading of masks, as an engine sees it."""

    inner: ModelRunner
    mask_seconds: float = 0.0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def forward(self, batch: StepBatch) -> StepOutput:
        return self.inner.forward(replace(batch, device_draws=partial(self._draws, batch)))

    def _draws(self, batch: StepBatch) -> Sequence[DeviceDraw | None]:
        assert batch.device_draws is not None
        began = time.perf_counter()
        draws = batch.device_draws()
        self.mask_seconds += time.perf_counter() - began
        return draws


class Decoding(NamedTuple):
    """The steps after all prompts were read."""

    prompt_tokens_a_second: float
    tokens: int
    seconds: float
    stats: EngineStats
    mask_seconds: float

    @property
    def step_seconds(self) -> float:
        return self.seconds / max(1, self.stats.model_calls)

    def cells(self) -> list[str]:
        steps = self.stats.model_calls
        if steps < _FEWEST_STEPS:
            return [f"an answer ended {steps} steps after all prompts were read: raise --answer"]

        def milliseconds(seconds: float) -> str:
            return f"{1e3 * seconds / steps:.2f}"

        parts = (Phase.FORWARD, Phase.DRAFT, Phase.RESERVE, Phase.SETTLE)
        return [
            f"{self.prompt_tokens_a_second:.0f}",
            f"{self.tokens / self.seconds:.0f}",
            milliseconds(self.seconds),
            *(milliseconds(self.stats.phases[part]) for part in parts),
            milliseconds(self.mask_seconds),
        ]


def make_model(shape: str, width: int, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """Make a model of random weights on its device."""
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
    runner: TimedRunner,
    vocabulary: Vocabulary,
    start: StartMatcher,
    requests: int,
    temperature: float,
    options: argparse.Namespace,
    constraint: Constraint,
) -> Decoding:
    """Answer this many requests at once, for as many steps as an answer is to have tokens."""
    numbers = np.random.default_rng(0)
    prompts = numbers.integers(300, 40_000, (requests, options.prompt)).tolist()
    tokens = options.prompt + options.answer + 64
    engine = Engine(
        model_name="random",
        runner=runner,  # type: ignore[arg-type]
        vocabulary=vocabulary,
        context_window=8192,
        render=lambda prompt, *_: tuple(prompts[int(str(prompt))]),
        start=start,
        max_batch=requests,
        cache_tokens=requests * tokens,
        step_tokens=options.step_tokens,
        reuse_prefixes=False,
    )
    runner.inner.warm_up()
    for number in range(requests):
        request = GenerationRequest(
            prompt=str(number),
            constraint=constraint,
            max_tokens=2 * _LETTERS * options.answer,  # room for every answer to end
            forcing=Forcing.OFF,
            sampling=Sampling(temperature=temperature, seed=number),
        )
        engine.submit(str(number), request)
    began = time.perf_counter()
    finished: list[Finished] = []
    while engine.stats().usage.sampled_tokens < 6 * requests and not finished:
        finished += engine.step()
    reading = time.perf_counter() - began
    early = engine.stats().usage.output_tokens
    engine.reset_counters()
    runner.mask_seconds, began = 0.0, time.perf_counter()
    for _ in range(options.answer):
        if not finished:  # while all of them run
            finished += engine.step()
    seconds, stats = time.perf_counter() - began, engine.stats()
    for each in finished:
        if isinstance(each.outcome, Exception):
            raise each.outcome
    read = requests * options.prompt / reading
    made = stats.usage.output_tokens - early
    return Decoding(read, made, seconds, stats, runner.mask_seconds)


def compared(
    decode: Callable[[Constraint], Decoding], constraints: Collection[Constraint], rounds: int
) -> list[Decoding]:
    """Return for each constraint the round with the shortest steps."""
    for each in constraints:
        decode(each)  # masks are built when they are first met
    seen = [[decode(each) for each in constraints] for _ in range(rounds)]
    return [min(column, key=lambda each: each.step_seconds) for column in zip(*seen, strict=True)]


def attention_milliseconds(
    kernel: AttentionKernel,
    model: PreTrainedModel,
    sequences: int,
    committed: int,
    new: int,
    synchronise: Callable[[], None],
) -> float:
    """Return the fastest milliseconds of ten calls of a layer after this many committed tokens."""
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
    parser.add_argument("--requests", type=int, nargs="+", default=[1, 8, 64], help="at once")
    parser.add_argument("--kernels", choices=[*AttentionKernel], nargs="+", default=["triton"])
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--answer", type=int, default=128, help="tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0])
    parser.add_argument("--step-tokens", type=int, default=2048)
    options = parser.parse_args()
    device = choose_device(options.device)
    dtype = native_dtype(device) if options.dtype is None else getattr(torch, options.dtype)
    is_cuda = device.type == "cuda"
    synchronise = partial(torch.cuda.synchronize, device) if is_cuda else lambda: None
    tokenizer = options.tokenizer or fetch_default_model(SilentProgress())
    vocabulary = vocabulary_from_tokenizer(AutoTokenizer.from_pretrained(tokenizer))
    model = make_model(options.shape, len(vocabulary), dtype, device)
    console = Console(width=160)
    console.print(f"{device_text(device)}, {dtype}, {options}")

    kernels = [AttentionKernel(name) for name in options.kernels]
    parts = ("prompt tk/s", "tokens/s", "ms a step", "forward", "draft", "reserve", "settle")
    start = ConstraintCompiler(vocabulary).start
    heads = ("requests", "kernel", "constraint", *parts, "(masks)")
    console.print(_line(heads))
    for kernel in kernels:
        runner = TimedRunner(ModelRunner(model, vocabulary_size=len(vocabulary), kernel=kernel))
        constraints: dict[str, Constraint] = {"none": None, "schema": schema(options.answer)}
        for requests, heat in product(options.requests, options.temperature):
            given = partial(decode, runner, vocabulary, start, requests, heat, options)
            fastest = compared(given, constraints.values(), options.rounds)
            for name, decoding in zip(constraints, fastest, strict=True):
                cells = decoding.cells()
                console.print(_line((str(requests), kernel, f"{name}, {heat}", *cells)))
            free, held = (each.step_seconds for each in fastest)
            console.print(f"a step with the schema takes {100 * (held / free - 1):+.1f} %")
    peak = torch.cuda.max_memory_allocated(device) if is_cuda else _peak_resident()
    console.print(
        f"weights {model.num_parameters() * dtype.itemsize >> 20} MiB, peak {peak >> 20} MiB"
    )

    table = Table("attention of one layer, ms", *options.kernels)
    for sequences, committed, new in ((1, 512, 1), (1, 512, 16), (16, 512, 1), (1, 0, 512)):
        cells = [
            attention_milliseconds(kernel, model, sequences, committed, new, synchronise)
            for kernel in kernels
        ]
        label = f"{sequences} x {new} behind {committed}"
        table.add_row(label, *(f"{cell:.3f}" for cell in cells))
    console.print(table)


def _line(cells: Sequence[str]) -> str:
    """Format a row of a table whose rows are printed as they come."""
    return " ".join(f"{cell:>12}" for cell in cells)


def _peak_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
