"""LoRA adapters of random numbers, in the layout of peft, and models with one merged into them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

__all__ = ["MATRICES", "save_adapter", "save_merged"]

MATRICES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def save_adapter(
    folder: Path,
    model: Path,
    *,
    seed: int,
    rank: int = 4,
    matrices: Iterable[str] = MATRICES,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """Save an adapter for all matrices of a model that have one of these names.

    It is strong enough to change the model's answers. ``config`` has further settings.
    """
    names = {
        name: module.weight.shape
        for name, module in _load(model).named_modules()
        if name.rsplit(".", 1)[-1] in set(matrices)
    }
    drawn = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for name, (outputs, inputs) in names.items():
        path = f"base_model.model.{name}"
        tensors[f"{path}.lora_A.weight"] = torch.randn(rank, inputs, generator=drawn)
        tensors[f"{path}.lora_B.weight"] = torch.randn(outputs, rank, generator=drawn) / 4
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": rank / 4, "bias": "none"}
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps(settings | dict(config or {})))
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def save_merged(folder: Path, model: Path, adapter: Path) -> Path:
    """Save the model with an adapter merged into its matrices, and its tokenizer."""
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    module = _load(model)
    tensors = load_file(adapter / "adapter_model.safetensors")
    settings = json.loads((adapter / "adapter_config.json").read_text())
    rank = settings["r"]
    scale = settings["lora_alpha"] / (math.sqrt(rank) if settings.get("use_rslora") else rank)
    for name, part in module.named_modules():
        path = f"base_model.model.{name}"
        if f"{path}.lora_A.weight" in tensors:
            added = tensors[f"{path}.lora_B.weight"] @ tensors[f"{path}.lora_A.weight"]
            part.weight.data += scale * added
    module.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)
    return folder


def _load(model: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
