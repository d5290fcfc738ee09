"""Weights read from files are those that transformers would have loaded, to the last bit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from guided.errors import ModelError
from guided.model.checkpoint import Checkpoint, read_checkpoint
from guided.model.cpu import (
    CpuDecoder,
    WeightFormat,
    read_decoder,
    take_decoder,
    why_not_by_files,
)
from tests.unit.model.cpu.paging import Pages, Piece, Text
from tests.unit.model.cpu.small_models import CONFIGS, make_model

TOKENS = np.random.default_rng(5).integers(0, 160, 40)


def saved(name: str, folder: Path) -> tuple[PretrainedConfig, Checkpoint]:
    make_model(name).save_pretrained(folder)
    return AutoConfig.from_pretrained(folder), read_checkpoint(folder)


def why_not(config: PretrainedConfig, checkpoint: Checkpoint) -> str | None:
    return why_not_by_files(config, checkpoint.shapes, checkpoint.types)


def logits(decoder: CpuDecoder, config: PretrainedConfig, dtype: torch.dtype) -> torch.Tensor:
    book = Pages(decoder, kv_heads=config.num_key_value_heads, size=config.head_dim, dtype=dtype)
    (found,) = book.logits(Piece(Text(), TOKENS))
    return found


@pytest.mark.parametrize("weight_format", WeightFormat)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_decoder_of_files_gives_the_logits_of_one_that_was_taken(
    name: str, weight_format: WeightFormat, tmp_path: Path
) -> None:
    dtype = torch.float32 if weight_format is WeightFormat.FP32 else torch.bfloat16
    config, checkpoint = saved(name, tmp_path)
    assert why_not(config, checkpoint) is None
    read: list[int] = []
    decoder = read_decoder(config, checkpoint.files, weight_format, dtype=dtype, report=read.append)
    assert (decoder.dtype, read) == (dtype, sorted(read))
    assert 0 < read[-1] <= checkpoint.nbytes
    module = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
    expected = logits(take_decoder(module, weight_format), config, dtype)
    assert torch.equal(logits(decoder, config, dtype), expected)


def rewritten(folder: Path, **changed: torch.Tensor | None) -> Checkpoint:
    """The same folder with some tensors added, or left out."""
    tensors = {**load_file(folder / "model.safetensors"), **changed}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    return read_checkpoint(folder)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model.norm.weight": None}, "model.norm.weight as None, not as (72,)"),
        ({"model.norm.weight": torch.ones(8)}, "model.norm.weight as (8,), not as (72,)"),
        ({"model.norm.bias": torch.ones(72)}, "model.norm.bias as (72,), not as None"),
        ({"model.norm.weight": torch.ones(72, dtype=torch.int8)}, "numbers of F32, I8"),
    ],
    ids=["missing", "of another shape", "not known", "no floats"],
)
def test_files_that_are_not_as_a_model_has_them_are_left_to_transformers(
    change: dict[str, torch.Tensor | None], reason: str, tmp_path: Path
) -> None:
    config, _ = saved("llama", tmp_path)
    found = why_not(config, rewritten(tmp_path, **change))
    assert found is not None
    assert found.endswith(reason)


def test_a_head_in_the_files_beside_tied_embeddings_is_left_to_transformers(tmp_path: Path) -> None:
    config, _ = saved("llama, tied embeddings", tmp_path)
    checkpoint = rewritten(tmp_path, **{"lm_head.weight": torch.zeros(160, 72)})
    assert str(why_not(config, checkpoint)).startswith("its files have lm_head.weight as (160, 72)")


def test_quantised_files_are_left_to_transformers(tmp_path: Path) -> None:
    _, checkpoint = saved("llama", tmp_path)
    told = json.loads((tmp_path / "config.json").read_text())
    told["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    (tmp_path / "config.json").write_text(json.dumps(told))
    config = AutoConfig.from_pretrained(tmp_path)
    assert why_not(config, checkpoint) == "the config sets quantization_config"


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    config, _ = saved("llama", tmp_path)
    checkpoint = rewritten(tmp_path, **{"model.norm.weight": torch.full((72,), float("nan"))})
    with pytest.raises(ModelError, match="the logits of LlamaForCausalLM are no numbers"):
        read_decoder(config, checkpoint.files, WeightFormat.FP32, dtype=torch.float32)


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), 1e7])
@pytest.mark.parametrize(
    ("model", "tensor"),
    [
        ("llama", "model.layers.1.mlp.down_proj.weight"),
        ("llama, tied embeddings", "model.embed_tokens.weight"),
    ],
)
def test_int4_names_the_matrix_that_it_cannot_hold(
    model: str, tensor: str, broken: float, tmp_path: Path
) -> None:
    config, _ = saved(model, tmp_path)
    changed = load_file(tmp_path / "model.safetensors")[tensor].clone()
    changed[7, 3] = broken
    checkpoint = rewritten(tmp_path, **{tensor: changed})
    told = f"{re.escape(tensor)} is broken, or too large .*: a scale of output 7 is not finite"
    with pytest.raises(ModelError, match=told):
        read_decoder(config, checkpoint.files, WeightFormat.INT4, dtype=torch.bfloat16)


@pytest.mark.parametrize("model", ["llama", "llama, tied embeddings"])
def test_the_head_of_int4_has_eight_bits(model: str, tmp_path: Path) -> None:
    config, checkpoint = saved(model, tmp_path)
    decoder = read_decoder(config, checkpoint.files, WeightFormat.INT4, dtype=torch.bfloat16)
    # A scale of 16 bits for 32 inputs, of which there are 72 and zeros.
    assert decoder.weights.head.nbytes == 160 * 96 // 32 * (32 + 2)
