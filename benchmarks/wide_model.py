"""Widens a small model to a billion parameters: `python -m benchmarks.wide_model FOLDER`.

Models of that size cannot be downloaded everywhere, and for a random model no draft is right. So
the feed-forward layers of the default model are widened: its own columns stay, and new ones are
random. Each call then reads as much as a call of a model of that size, and the small model predicts
the wide one nearly, but not quite, right; ``--noise`` sets how far off it is. Prints how often the
two agree about the most likely next token.

    python -m benchmarks.wide_model wide
    guided bench --drafters --model wide --draft-model SMALL --concurrency 1
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from guided.model.default_model import fetch_default_model
from guided.model.progress import SilentProgress

REPLIES = Path(__file__).with_name("replies.jsonl")


def widen(model: PreTrainedModel, inner: int, noise: float) -> None:
    """Give each feed-forward layer ``inner`` columns; ``noise`` scales what the new ones add."""
    generator = torch.Generator().manual_seed(1)
    for layer in model.model.layers:
        mlp = layer.mlp
        own, hidden = mlp.gate_proj.out_features, mlp.gate_proj.in_features
        new = inner - own
        for name in ("gate_proj", "up_proj"):
            old = getattr(mlp, name).weight
            rows = torch.randn(new, hidden, generator=generator) * old.float().std()
            setattr(mlp, name, _linear(torch.cat((old, rows.to(old.dtype)))))
        old = mlp.down_proj.weight
        columns = torch.randn(hidden, new, generator=generator) * old.float().std()
        columns *= noise * (own / new) ** 0.5
        mlp.down_proj = _linear(torch.cat((old, columns.to(old.dtype)), dim=1))
    model.config.intermediate_size = inner


def _linear(weight: torch.Tensor) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    made.weight = nn.Parameter(weight.contiguous(), requires_grad=False)
    return made


@torch.inference_mode()
def agreement(small: PreTrainedModel, wide: PreTrainedModel, texts: list[list[int]]) -> float:
    """Return the share of places where both find the same token most likely."""
    same = total = 0
    for ids in texts:
        tokens = torch.tensor([ids])
        first, second = (model(tokens).logits.argmax(-1) for model in (small, wide))
        same += int((first == second).sum())
        total += first.numel()
    return same / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--inner", type=int, default=20_480)
    parser.add_argument("--noise", type=float, default=0.1)
    arguments = parser.parse_args()
    source = fetch_default_model(SilentProgress())
    tokenizer = AutoTokenizer.from_pretrained(source)
    small = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    wide = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    widen(wide, arguments.inner, arguments.noise)
    wide.save_pretrained(arguments.folder)
    tokenizer.save_pretrained(arguments.folder)
    replies = [json.loads(line) for line in REPLIES.read_text().splitlines()[:8]]
    texts = [tokenizer.encode(json.dumps(reply))[:160] for reply in replies]
    parameters = sum(weight.numel() for weight in wide.parameters())
    print(f"{parameters:,} parameters; same token in {agreement(small, wide, texts):.0%} of places")


if __name__ == "__main__":
    main()
