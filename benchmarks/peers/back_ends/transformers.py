"""generate() of transformers, masked by xgrammar or llguidance, in static batches."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any, Final

import torch
import transformers

from benchmarks.peers.answers import Answers, Request
from benchmarks.peers.back_ends.processors import LlguidanceMasks, Masks, XgrammarMasks

__all__ = ["run_llguidance", "run_xgrammar"]

_HF: Final[Any] = transformers
"""Untyped in good part."""
_WARM_UP: Final = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}},
    "required": ["a"],
}


def run_xgrammar(
    options: argparse.Namespace, requests: Sequence[Request], answers: Answers
) -> None:
    """The back end ``hf_xgrammar``."""
    model = _Model(options)
    masks = XgrammarMasks(model.tokenizer, model.width, options.threads)
    _run(model, masks, options.batch, requests, answers)


def run_llguidance(
    options: argparse.Namespace, requests: Sequence[Request], answers: Answers
) -> None:
    """The back end ``hf_llguidance``."""
    model = _Model(options)
    _run(model, LlguidanceMasks(model.tokenizer, model.width), options.batch, requests, answers)


class _Model:
    """A model and its tokenizer, with a count of the model's calls."""

    def __init__(self, options: argparse.Namespace) -> None:
        _HF.logging.set_verbosity_error()
        _HF.utils.logging.disable_progress_bar()
        torch.set_num_threads(options.threads)
        torch.set_grad_enabled(False)
        self.tokenizer = _HF.AutoTokenizer.from_pretrained(options.hf_model, padding_side="left")
        self.model = _HF.AutoModelForCausalLM.from_pretrained(
            options.hf_model, dtype=getattr(torch, options.dtype), attn_implementation="sdpa"
        ).eval()
        self.width: int = self.model.config.vocab_size
        self.end: int = self.tokenizer.eos_token_id
        self.calls = 0
        self.model.register_forward_pre_hook(self._count)

    def _count(self, *_: object) -> None:
        self.calls += 1

    def encode(self, requests: Sequence[Request]) -> Any:
        """Return the prompts of a batch, padded on the left, with their masks."""
        texts = [
            self.tokenizer.apply_chat_template(
                [{"role": "user", "content": each["prompt"]}],
                tokenize=False,
                add_generation_prompt=True,
            )
            for each in requests
        ]
        return self.tokenizer(
            texts, return_tensors="pt", padding=len(texts) > 1, add_special_tokens=False
        )

    def generate(self, encoded: Any, tokens: int, *processors: Any) -> list[list[int]]:
        """Return at most ``tokens`` greedy tokens for each prompt, up to its end."""
        found = self.model.generate(
            **encoded,
            max_new_tokens=tokens,
            do_sample=False,
            pad_token_id=self.end,
            logits_processor=[*processors],
        )
        rows = found[:, encoded["input_ids"].shape[1] :].tolist()
        return [row[: row.index(self.end)] if self.end in row else row for row in rows]


def _run(
    model: _Model, masks: Masks, batch: int, requests: Sequence[Request], answers: Answers
) -> None:
    model.generate(model.encode([requests[0]] * batch), 8)
    warm = masks.processor([masks.compile(_WARM_UP)])
    model.generate(model.encode(requests[:1]), 12, warm)
    model.calls = 0
    began = time.perf_counter()
    for first in range(0, len(requests), batch):
        _answer(model, masks, requests[first : first + batch], answers)
    answers.finish(time.perf_counter() - began, model.calls)


def _answer(model: _Model, masks: Masks, group: Sequence[Request], answers: Answers) -> None:
    """Answer a batch, whose requests share its time equally."""
    calls, began = model.calls, time.perf_counter()
    try:
        encoded = model.encode(group)
        processor = masks.processor([masks.compile(each["schema"]) for each in group])
        compiled = time.perf_counter() - began
        most = max(each["max_tokens"] for each in group)
        found = model.generate(encoded, most, processor)
    except Exception as error:
        for request in group:
            answers.fail(request, error)
        return
    wall, share = time.perf_counter() - began, len(group)
    for request, ids in zip(group, found, strict=True):
        answers.add(
            request,
            model.tokenizer.decode(ids),
            len(ids),
            wall / share,
            compiled / share,
            model.calls - calls if share == 1 else None,
            ids=ids,
        )
