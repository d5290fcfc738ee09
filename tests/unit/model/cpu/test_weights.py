"""Models that we do not compute are refused by name, before any weight is taken."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
from transformers import Gemma3TextConfig as Gemma3Config
from transformers import GPT2Config, LlamaConfig, LlamaForCausalLM, PretrainedConfig, Qwen3Config

from guided.errors import ModelError
from guided.model.cpu import WeightFormat, take_decoder, why_not
from tests.unit.model.cpu.small_models import CONFIGS, SHAPE, make_model, random_model


def rope(**parameters: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_theta": 1e4, **parameters}}


REFUSED: dict[str, tuple[PretrainedConfig, str]] = {
    "another architecture": (
        GPT2Config(vocab_size=160, n_embd=32, n_layer=2, n_head=4, n_positions=64),
        "GPT2LMHeadModel is not one of LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
        "Qwen3ForCausalLM, Gemma3ForCausalLM",
    ),
    "another activation": (
        LlamaConfig(**SHAPE, hidden_act="relu"),
        "the activation 'relu' is not one of silu, gelu_pytorch_tanh",
    ),
    "angles that depend on the call": (
        LlamaConfig(**SHAPE, **rope(rope_type="dynamic", factor=2.0)),
        "'dynamic' rotary positions depend on the longest sequence of a call",
    ),
    "angles of a part of each head": (
        Qwen3Config(**SHAPE, **rope(rope_type="default", partial_rotary_factor=0.5)),
        "only a part of each head is rotated",
    ),
    "wide heads": (
        LlamaConfig(**(SHAPE | {"head_dim": 264})),
        "heads are of 264 numbers, more than 256",
    ),
    "capped logits": (
        Gemma3Config(**SHAPE, final_logit_softcapping=30.0),
        "the config sets final_logit_softcapping",
    ),
}


@pytest.mark.parametrize(("config", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_model_that_computes_otherwise_is_refused(config: PretrainedConfig, reason: str) -> None:
    assert why_not(random_model(copy.deepcopy(config))) == reason


@pytest.mark.parametrize("name", CONFIGS)
def test_models_that_are_computed_are_not_refused(name: str) -> None:
    assert why_not(make_model(name)) is None


def test_a_subclass_may_compute_anything() -> None:
    class Other(LlamaForCausalLM):  # type: ignore[no-untyped-call]
        pass

    assert str(why_not(Other(LlamaConfig(**SHAPE)))).startswith("Other is not one of ")


def test_a_matrix_that_was_replaced_is_refused() -> None:
    class Packed(torch.nn.Linear):
        pass

    model: Any = make_model("llama")
    model.model.layers[1].mlp.up_proj = Packed(4, 4)
    assert why_not(model) == "model.layers.1.mlp.up_proj is a Packed, not a plain matrix"


def test_refusing_leaves_the_model_whole() -> None:
    model = random_model(copy.deepcopy(REFUSED["another activation"][0]))
    with pytest.raises(ModelError, match="no forward pass of its own on the CPU: the activation"):
        take_decoder(model, WeightFormat.FP32)
    assert all(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", ["llama", "llama, tied embeddings"])
def test_taking_leaves_nothing_in_the_model(name: str) -> None:
    model = make_model(name)
    take_decoder(model, WeightFormat.FP32)
    assert not any(parameter.numel() for parameter in model.parameters())


def test_packed_weights_keep_nothing_of_the_memory_they_were_loaded_to() -> None:
    """It may be a mapped file, and one small view would keep all of it in memory."""
    model = make_model("llama, tied embeddings")
    loaded = [weakref.ref(parameter.untyped_storage()) for parameter in model.parameters()]
    decoder = take_decoder(model, WeightFormat.BF16)
    gc.collect()
    assert not any(storage() for storage in loaded)
    assert decoder.windows == (None, None)
