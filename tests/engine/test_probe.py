"""A model that packed attention would run wrongly is refused by name."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
import torch
from transformers import (
    BloomConfig,
    DiffLlamaConfig,
    DogeConfig,
    GPT2Config,
    Llama4TextConfig,
    LlamaConfig,
    MixtralConfig,
    MptConfig,
    PretrainedConfig,
    Qwen2Config,
)

from guided.errors import ModelError
from guided.model.attention import KERNEL_VARIABLE, AttentionKernel
from guided.model.probe import ModelShape, probe_model
from guided.model.runner import ModelRunner
from guided.spec import GenerationRequest
from tests.engine.finite_language import TOKEN_BYTES
from tests.engine.tiny_models import answers, from_config, make_engine, make_model
from tests.kit.causal_types import tiny_config

SMALL: dict[str, Any] = {
    "vocab_size": 288,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
}

REFUSED: dict[str, tuple[PretrainedConfig, str]] = {
    "chunks": (
        Llama4TextConfig(**SMALL, head_dim=8, num_local_experts=2, intermediate_size_mlp=48),
        "Llama4ForCausalLM has layers of type 'chunked_attention', which is not supported",
    ),
    "a mask of its own": (
        DogeConfig(**SMALL),
        "DogeAttention needs attention_mask in its attention, which is not supported; use a model "
        "without it",
    ),
    "two attentions a layer": (
        DiffLlamaConfig(**SMALL),
        "DiffLlamaForCausalLM has 2 layers, but 4 of them went through transformers' attention",
    ),
    "slopes instead of positions": (
        MptConfig(vocab_size=288, d_model=32, n_layers=2, n_heads=4),
        "MptForCausalLM has 2 layers, but 0 of them went through transformers' attention",
    ),
    "attention of its own": (
        BloomConfig(vocab_size=288, hidden_size=32, n_layer=2, n_head=4),
        "BloomForCausalLM has 2 layers, but 0 of them went through transformers' attention",
    ),
    "state in other layers": (
        Qwen2Config(**SMALL, layer_types=["full_attention", "linear_attention"]),
        "Qwen2ForCausalLM has layers that keep a state, and no module that keeps one in "
        "transformers' cache",
    ),
}


@pytest.mark.parametrize(("config", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(config: PretrainedConfig, message: str) -> None:
    model = from_config(config)
    with pytest.raises(ModelError) as caught:
        probe_model(model)
    assert str(caught.value).startswith(message)


def test_a_model_that_answers_otherwise_than_with_its_own_attention_is_refused() -> None:
    """A hook stands for anything that a model may do to its scores unseen by us."""
    model = make_model("gpt2")
    model.transformer.register_forward_hook(  # type: ignore[union-attr]
        lambda module, _, output: setattr(
            output,
            "last_hidden_state",
            output.last_hidden_state.flip(-1)
            if module.config._attn_implementation == "guided"
            else output.last_hidden_state,
        )
    )
    with pytest.raises(ModelError, match=r"differ by .* at the beginning of a text"):
        probe_model(model)


SILENT = {
    "phimoe": "beyond its sliding window",
    "roberta": "at the beginning of a text",
    "roberta-prelayernorm": "at the beginning of a text",
    "camembert": "at the beginning of a text",
    "xlm-roberta": "at the beginning of a text",
    "xlm-roberta-xl": "at the beginning of a text",
    "data2vec-text": "at the beginning of a text",
}
"""Models that are wrong only with the positions or the mask that we give them."""


@pytest.mark.parametrize("model_type", SILENT)
def test_a_model_is_asked_for_its_own_positions_and_masks(model_type: str) -> None:
    with pytest.raises(ModelError) as caught:
        probe_model(from_config(tiny_config(model_type)))
    assert re.search(
        rf"the logits of \w+ differ by .*% from those that it gives to a text alone, "
        rf"{SILENT[model_type]}; its positions or its attention do something that is not supported",
        str(caught.value),
    )


def test_a_window_as_long_as_the_longest_text_never_closes() -> None:
    """Phi-3.5-MoE has such a window, and slides by its mask alone."""
    config = tiny_config("phimoe")
    config.sliding_window = config.max_position_embeddings
    assert probe_model(from_config(config)).windows == (None,) * 4


def test_a_window_by_another_name_is_refused_where_it_is_longer_than_a_trial() -> None:
    model = make_model()
    model.config.local_window = 100
    with pytest.raises(ModelError, match="sets local_window to 100 in its config, a window that"):
        probe_model(model)


def test_a_window_that_no_setting_makes_small_is_refused() -> None:
    model = make_model()
    for layer in model.model.layers:
        layer.self_attn.forward = partial(layer.self_attn.forward, sliding_window=100)
    with pytest.raises(ModelError, match=r"layer 0 of \w+ has a window of 100 tokens that cannot"):
        probe_model(model)


def test_a_model_whose_texts_are_shorter_than_a_trial_is_refused() -> None:
    model = make_model()
    model.config.max_position_embeddings = 11
    with pytest.raises(ModelError, match="takes texts of 11 tokens, fewer than the 12 of a trial"):
        probe_model(model)


def test_what_a_model_fails_at_is_told() -> None:
    model = from_config(MixtralConfig(**SMALL, num_local_experts=4))
    torch.nn.Module.to(model, dtype=torch.float64)
    with pytest.raises(ModelError, match="MixtralForCausalLM fails in a trial call"):
        probe_model(model)


def test_a_model_that_gives_other_logits_than_those_asked_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = make_model()

    def forward(**options: Any) -> Any:
        return type(model).forward(model, **(options | {"logits_to_keep": 0}))

    monkeypatch.setattr(model, "forward", forward)
    with pytest.raises(ModelError, match=r"differ by .* at the beginning of a text"):
        probe_model(model)


def test_a_model_is_described_by_what_its_layers_ask_for() -> None:
    shape = probe_model(make_model("gemma3_sliding"))
    assert [(layer.heads, layer.key_size, layer.value_size) for layer in shape.layers] == [
        (2, 16, 16),
        (2, 16, 16),
    ]
    assert shape.windows == (6, None)
    assert shape.dtype == torch.float64


def test_two_engines_may_share_a_model() -> None:
    model = make_model()
    request = GenerationRequest(prompt="hello", max_tokens=8)
    first = answers(make_engine(model), {"r": request})["r"]
    assert answers(make_engine(model), {"r": request})["r"].tokens == first.tokens


@pytest.mark.parametrize("width", [280, 269, 240])
def test_logits_are_cut_or_widened_to_the_vocabulary(width: int) -> None:
    """Tokens for which the model has no logits are never chosen."""
    torch.manual_seed(3)
    config = GPT2Config(vocab_size=width, n_embd=16, n_layer=1, n_head=2, initializer_range=0.5)
    engine = make_engine(from_config(config))
    result = answers(engine, {"r": GenerationRequest(prompt="hello", max_tokens=20)})["r"]
    assert len(result.tokens) > 0
    assert max(result.tokens) < min(width, len(TOKEN_BYTES))


def test_a_model_that_makes_much_of_rounding_is_compared_with_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with many layers of 16-bit weights, whose two own attentions differ by more than 5 %."""
    config = LlamaConfig(**SMALL | {"num_hidden_layers": 24, "hidden_size": 64})

    def model() -> Any:
        torch.manual_seed(1)
        return from_config(config).to(torch.bfloat16)  # type: ignore[arg-type]

    probe_model(model())
    monkeypatch.setattr("guided.model.probe._rounding", lambda *_, **__: 0.0)
    with pytest.raises(ModelError, match="from those that it gives to a text alone"):
        probe_model(model())


def failing_kernel(module: Any, kernel: AttentionKernel, stage: None) -> ModelShape:
    if kernel is AttentionKernel.TRITON:
        raise ModelError("no C compiler")
    return probe_model(module, kernel, stage)


def test_where_a_kernel_that_nobody_asked_for_fails_torch_computes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    triton = AttentionKernel.TRITON
    monkeypatch.setattr("guided.model.runner.choose_kernel", lambda *_: triton)
    monkeypatch.setattr("guided.model.runner.probe_model", failing_kernel)
    model = make_model()
    assert "attention TORCH" in ModelRunner(model, vocabulary_size=200).description
    assert "torch computes attention, and nothing is replayed: no C compiler" in caplog.text
    with pytest.raises(ModelError, match="no C compiler"):
        ModelRunner(model, vocabulary_size=200, kernel=triton)
    monkeypatch.setenv(KERNEL_VARIABLE, "triton")
    with pytest.raises(ModelError, match="no C compiler"):
        ModelRunner(model, vocabulary_size=200)
