"""Measures the cost of weight and cache formats: `python -m benchmarks.quality [MODEL]`.

Prints perplexity on a fixed text of 2,168 tokens (of SmolLM2), how often the likeliest next token
there is that of fp32, how far logits are from those of fp32, and for the greedy answers to the
demo's requests under their schemas: how many are the same as in fp32, and how many of all tokens
come before the first that differs.

`--workload FILE` is as for `model_calls.py`. Its requests are answered in fp32, and each format
follows those answers: it prints how often the format chooses the same as fp32 where several tokens
are legal.

`--of WHOLE` is the model that a GGUF file of blocks was made from: the file as stored is compared
with that model in fp32, so the cost of the blocks themselves is included.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy

from benchmarks.bare_models import (
    Ours,
    Paged,
    Theirs,
    open_ours,
    open_paged,
    open_stored,
    open_theirs,
)
from benchmarks.model_calls import read_requests
from examples.demo_requests import REQUESTS
from guided.constraint import ConstraintCompiler
from guided.engine import load_engine
from guided.masks.mask import tokens_of
from guided.model.cpu import WeightFormat
from guided.model.load import load_model
from guided.model.model_files import ModelFiles, find_stored
from guided.model.prompt import render_prompt
from guided.spec import Constraint, GenerationRequest, GenerationResult, TokenId

_TEXT = Path(__file__).parent / "perplexity_text.txt"


@dataclass(frozen=True)
class Found:
    logits: torch.Tensor
    """Logits of the text, ``[tokens, vocabulary]``."""
    answers: list[list[int]]
    choices: list[int]
    """The choices along the answers to the workload, among legal tokens where there are several."""


@dataclass(frozen=True)
class Led:
    """An answer to follow."""

    prompt: tuple[TokenId, ...]
    answer: tuple[TokenId, ...]
    constraint: Constraint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--workload", type=Path)
    parser.add_argument("--of", metavar="WHOLE")
    options = parser.parse_args()
    name: str | None = options.of or options.model
    led = [] if options.workload is None else answered(name, read_requests(options.workload))
    loaded = load_model(name)
    compiler = ConstraintCompiler(loaded.vocabulary)
    text = loaded.tokenizer.encode(_TEXT.read_text())
    prompts = [render_prompt(loaded, request.specification.prompt) for request in REQUESTS]

    def measure(model: Ours | Paged | Theirs) -> Found:
        answers = [
            greedy(model, list(prompt), compiler, request.specification, loaded.vocabulary.end_ids)
            for prompt, request in zip(prompts, REQUESTS, strict=True)
        ]
        choices = [choice for each in led for choice in chosen(model, each, compiler)]
        return Found(model.open().extend(text), answers, choices)

    slots = max(len(text), 0, *(len(each.prompt) + len(each.answer) for each in led)) + 1
    if options.of is None:
        models = all_formats(name, slots)
    else:
        models = {
            "own fp32": lambda: open_ours(name, WeightFormat.FP32, slots=slots),
            f"{options.model}, as stored": lambda: open_stored(options.model, slots=slots),
        }
    table = Table(
        *("weights", "perplexity", "same top token", "logits off by", "answers", "tokens"),
        f"choices, of {sum(len(each.answer) for each in led)} tokens",
    )
    exact: Found | None = None
    for label, opened in models.items():
        found = measure(opened())
        exact = exact or found
        table.add_row(label, *compared(found, exact, text))
    Console(width=120).print(table)


def all_formats(name: str | None, slots: int) -> dict[str, Callable[[], Ours | Paged | Theirs]]:
    """Return each format that a model can be computed in, with fp32 first."""
    models: dict[str, Callable[[], Ours | Paged | Theirs]] = {
        "own fp32": lambda: open_ours(name, WeightFormat.FP32, slots=slots),
        "transformers bf16": lambda: open_theirs(name, torch.bfloat16),
        "transformers bf16, cache int8": lambda: open_paged(name, torch.bfloat16, slots=slots),
        "own bf16": lambda: open_ours(name, WeightFormat.BF16, slots=slots),
        "own int8": lambda: open_ours(name, WeightFormat.INT8, slots=slots),
        "own int4": lambda: open_ours(name, WeightFormat.INT4, slots=slots),
    }
    if isinstance(find_stored(name), ModelFiles):
        models["own, as stored"] = lambda: open_stored(name, slots=slots)
    return models


def answered(name: str | None, requests: Mapping[str, GenerationRequest]) -> list[Led]:
    """Return the greedy answers in fp32, made one at a time."""
    engine = load_engine(name, dtype="float32")
    loaded = load_model(name)
    led = []
    for number, request in requests.items():
        engine.submit(number, request)
        while engine.has_work:
            for ended in engine.step():
                if not isinstance(ended.outcome, GenerationResult):
                    raise ended.outcome
                prompt = render_prompt(loaded, request.prompt)
                led.append(Led(prompt, ended.outcome.tokens, request.constraint))
    return led


def chosen(model: Ours | Paged | Theirs, led: Led, compiler: ConstraintCompiler) -> Iterator[int]:
    """Yield what greedy decoding takes along an answer, where there is a choice."""
    matcher = compiler.start(led.constraint)
    logits = model.open().extend([*led.prompt, *led.answer])[len(led.prompt) - 1 :]
    for row, token in zip(logits, led.answer, strict=False):
        legal = torch.from_numpy(tokens_of(matcher.mask()).astype("int64"))
        if len(legal) > 1:
            yield int(legal[row[legal].argmax()])
        matcher = matcher.advance(token)


def greedy(
    model: Ours | Paged | Theirs,
    prompt: list[int],
    compiler: ConstraintCompiler,
    request: GenerationRequest,
    end_ids: Collection[int],
) -> list[int]:
    """Decode greedily without forced runs, so that all formats do the same."""
    matcher = compiler.start(request.constraint)
    text, answer = model.open(), list[int]()
    logits = text.extend(prompt)[-1]
    while not matcher.is_complete and len(answer) < request.most_tokens:
        legal = torch.from_numpy(tokens_of(matcher.mask()).astype("int64"))
        token = int(legal[logits[legal].argmax()])
        answer.append(token)
        if token in end_ids:
            break
        matcher = matcher.advance(token)
        logits = text.extend([token])[-1]
    return answer


def compared(found: Found, exact: Found, text: list[int]) -> list[str]:
    nats = float(cross_entropy(found.logits[:-1], torch.tensor(text[1:])))
    same = float((found.logits.argmax(1) == exact.logits.argmax(1)).float().mean())
    off = float((found.logits - exact.logits).norm() / exact.logits.norm())
    equal = sum(a == b for a, b in zip(found.answers, exact.answers, strict=True))
    shared = sum(map(shared_start, found.answers, exact.answers))
    return [
        f"{math.exp(nats):.3f}",
        f"{same:.1%}",
        f"{off:.2%}",
        f"{equal} of {len(exact.answers)}",
        f"{shared / sum(map(len, exact.answers)):.1%}",
        agreed(found.choices, exact.choices),
    ]


def agreed(choices: Sequence[int], exact: Sequence[int]) -> str:
    """Format how many choices are the same, if there are any."""
    same = sum(a == b for a, b in zip(choices, exact, strict=True))
    return f"{same} of {len(exact)} ({same / len(exact):.1%})" if exact else ""


def shared_start(one: list[int], other: list[int]) -> int:
    """Return the number of tokens before the first difference."""
    for number, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return number
    return min(len(one), len(other))


if __name__ == "__main__":
    main()
