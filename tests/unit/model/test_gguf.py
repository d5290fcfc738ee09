"""Models are read from GGUF files as they were written, or the file is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    Phi3Config,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from guided.errors import ModelError
from guided.model.convert import convert_gguf
from guided.model.gguf_config import GGUF_ARCHITECTURES, GGUF_TYPES
from guided.model.load import load_model
from guided.model.progress import SilentProgress
from tests.kit.gguf_files import BYTE_TOKENS, rounded, write_gguf

SHAPE: dict[str, Any] = {
    "vocab_size": len(BYTE_TOKENS),
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
    "rope_theta": 12345.0,
    "rms_norm_eps": 3e-5,
    "eos_token_id": 0,
    "bos_token_id": None,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 12345.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
WINDOW = {"attention.sliding_window": 7}
MODELS: dict[str, tuple[str, PretrainedConfig, dict[str, Any]]] = {
    "llama": ("llama", LlamaConfig(**SHAPE), {}),
    "llama_tied": ("llama", LlamaConfig(**SHAPE, tie_word_embeddings=True), {}),
    "llama_linear": (
        "llama",
        LlamaConfig(
            **SHAPE,
            rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 12345.0},
        ),
        {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    ),
    "llama3": ("llama", LlamaConfig(**SHAPE, head_dim=16, rope_parameters=LLAMA3), {}),
    "qwen2": ("qwen2", Qwen2Config(**SHAPE), {}),
    "qwen3": ("qwen3", Qwen3Config(**SHAPE, head_dim=16), {}),
    "gemma2": (
        "gemma2",
        Gemma2Config(
            **SHAPE,
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=7,
            attn_logit_softcapping=2.0,
            final_logit_softcapping=3.0,
        ),
        {**WINDOW, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    ),
    "gemma3": (
        "gemma3",
        Gemma3TextConfig(
            **SHAPE | {"num_hidden_layers": 7},
            head_dim=16,
            query_pre_attn_scalar=16,
            sliding_window=7,
        ),
        WINDOW,
    ),
    "phi3": ("phi3", Phi3Config(**SHAPE, sliding_window=9), {"attention.sliding_window": 9}),
    "gpt2": (
        "gpt2",
        GPT2Config(
            vocab_size=len(BYTE_TOKENS),
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=96,
            eos_token_id=0,
            bos_token_id=None,
            layer_norm_epsilon=3e-5,
            initializer_range=0.3,
        ),
        {},
    ),
}
TEXT = torch.arange(40)[None] * 7 % len(BYTE_TOKENS)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GUIDED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def make(config: PretrainedConfig) -> PreTrainedModel:
    torch.manual_seed(1)
    from_config: Callable[..., PreTrainedModel] = AutoModelForCausalLM.from_config
    model = from_config(config)
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            torch.nn.init.normal_(weight, mean=0.5 if "norm" in name else 0.0, std=0.2)
    model.train(mode=False)
    return model


def logits(model: PreTrainedModel) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = model(TEXT).logits
    return found


def convert(file: Path, name: str = "converted") -> PreTrainedModel:
    folder = file.parent / name
    convert_gguf(file, folder, SilentProgress())
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder)
    return model


def extras(config: PretrainedConfig) -> dict[str, Any]:
    """The tensors that llama.cpp's converter makes for the rotary scaling of Llama 3."""
    if getattr(config, "rope_parameters", {}).get("rope_type") != "llama3":
        return {}
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 12345.0 ** -(torch.arange(len(scaled)) / len(scaled))
    return {"tensors": {"rope_freqs.weight": (plain / scaled).numpy().astype(np.float32)}}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_out_as_it_went_in(name: str, tmp_path: Path) -> None:
    architecture, config, settings = MODELS[name]
    model = make(config)
    file = tmp_path / "model.gguf"
    write_gguf(file, model, architecture, settings=settings, **extras(config))
    converted = convert(file)
    assert converted.dtype == torch.float32
    torch.testing.assert_close(logits(converted), logits(model), rtol=1e-4, atol=1e-4)


def test_every_architecture_is_tested() -> None:
    assert {architecture for architecture, _, _ in MODELS.values()} == set(GGUF_ARCHITECTURES)


def test_a_file_is_loaded_with_its_tokenizer_and_ends(tmp_path: Path, cache: Path) -> None:
    """Converted once; the same content under another name is not converted again."""
    file = tmp_path / "model.gguf"
    template = "{{ messages[0].content }}"
    write_gguf(file, make(MODELS["llama"][1]), "llama", pre="smollm", chat_template=template)
    model = load_model(str(file), dtype=torch.float32, progress=SilentProgress())
    assert model.name == str(file)
    assert model.context_window == 96
    assert model.has_chat_template
    assert model.vocabulary.end_ids == {0, 1}
    assert model.tokenizer.tokenize("hello  12") == ["hello", "ĠĠ", "1", "2"]
    (folder,) = (path for path in cache.iterdir() if path.is_dir())
    made = folder.stat().st_mtime_ns
    load_model(str(file.rename(tmp_path / "other.gguf")), progress=SilentProgress())
    assert [path.stat().st_mtime_ns for path in cache.iterdir() if path.is_dir()] == [made]


def test_a_tokenizer_beside_the_file_is_used(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf(file, make(MODELS["llama"][1]), "llama")
    plain = load_model(str(file), progress=SilentProgress())
    assert plain.tokenizer.tokenize("12") == ["12"]
    tokenizer = plain.tokenizer
    tokenizer.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    tokenizer.save_pretrained(tmp_path)
    beside = load_model(str(file), progress=SilentProgress())
    assert beside.tokenizer.tokenize("12") == ["Ġ", "12"]
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 2


@pytest.mark.parametrize("kind", GGUF_TYPES)
def test_each_type_is_unpacked(kind: str, tmp_path: Path) -> None:
    """Matrices are read as the numbers of their blocks, rounded to bf16 if they were packed."""
    config = Qwen3Config(
        **SHAPE | {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1},
        head_dim=64,
    )
    quantised = gguf.GGMLQuantizationType[kind]
    model = rounded(make(config), quantised)
    file = tmp_path / "model.gguf"
    write_gguf(file, model, "qwen3", quantised=quantised)
    converted = convert(file)
    dtype = {"F32": torch.float32, "F16": torch.float16}.get(kind, torch.bfloat16)
    assert converted.dtype == dtype
    for name, weight in model.state_dict().items():
        assert torch.equal(converted.state_dict()[name], weight.to(dtype)), name


LLAMA = MODELS["llama"][1]
FOLDER = "use the model's folder of transformers"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an architecture": (
        {"architecture": "mamba"},
        "{file} is of the architecture 'mamba', which is not read from GGUF; choose one of gemma2, "
        "gemma3, gpt2, llama, phi3, qwen2, qwen3, or a folder of transformers",
    ),
    "a setting": (
        {"settings": {"attention.scale": 0.5}},
        "{file} sets attention.scale to 0.5, which is not read from GGUF; " + FOLDER,
    ),
    "rotary scaling": (
        {"settings": {"rope.scaling.type": "yarn"}},
        "{file} sets rope.scaling.type to 'yarn', which is not read from GGUF; " + FOLDER,
    ),
    "unknown rotary factors": (
        {"tensors": {"rope_freqs.weight": np.ones(4, np.float32) * 3}},
        "{file} scales its rotary positions (rope_freqs.weight) in a way that is not known; "
        + FOLDER,
    ),
    "positions by length": (
        {"tensors": {"rope_factors_long.weight": np.ones(4, np.float32)}},
        "{file} has the tensor rope_factors_long.weight: rotary positions that depend on the "
        "length of the text are not supported; choose a model without them",
    ),
    "a part of a head": (
        {"settings": {"rope.dimension_count": 6}},
        "{file} sets rope.dimension_count to 6, but its heads have 8 numbers; that is not read "
        "from GGUF; " + FOLDER,
    ),
    "a tokenizer": (
        {"pre": "nobody-knows"},
        "{file} has a tokenizer that cuts text in the way 'nobody-knows', which is not known; put "
        "the model's tokenizer.json and tokenizer_config.json beside it",
    ),
    "a tensor that is missing": (
        {"skipped": "blk.1.ffn_up.weight"},
        "{file} is incomplete: it has nothing for model.layers.1.mlp.up_proj.weight; fetch it "
        "again",
    ),
    "one of several files": (
        {"parts": 3},
        "{file} is one of 3 files of a model; join them with llama-gguf-split --merge",
    ),
    "a type of tensor": (
        {"tensors": {"more.weight": np.ones(4, np.int32)}},
        "{file} has tensors of the type I32, which cannot be unpacked; choose a file with F32, "
        "F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, "
        "IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, TQ1_0, TQ2_0, MXFP4",
    ),
}


def message(file: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(str(file), progress=SilentProgress())
    return str(caught.value)


@pytest.mark.parametrize("reason", REFUSED)
def test_what_would_not_come_out_right_is_refused(reason: str, tmp_path: Path) -> None:
    options, expected = REFUSED[reason]
    file = tmp_path / "model.gguf"
    write_gguf(file, make(LLAMA), **{"architecture": "llama", **options})
    assert message(file) == expected.format(file=file)


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"PK")
    assert message(file) == (
        f"{file} is not a GGUF file: it does not begin with GGUF; name a GGUF file, or a model "
        "folder of transformers"
    )


def test_a_length_that_no_file_has(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf(file, make(LLAMA), "llama")
    content = bytearray(file.read_bytes())
    first_key = 4 + 4 + 8 + 8  # after magic, version, and the counts of tensors and of values
    content[first_key : first_key + 8] = b"\xff" * 8
    file.write_bytes(content)
    assert message(file).startswith(f"the GGUF file {file} is cut off or broken: ")


def test_a_setting_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf(file, make(LLAMA), "llama", pre="gpt-2")
    content = file.read_bytes()
    assert content.count(b"gpt-2") == 1
    file.write_bytes(content.replace(b"gpt-2", b"gpt-\xff"))
    assert message(file).startswith(f"the GGUF file {file} is cut off or broken: 'utf-8' codec")


def test_more_layers_than_tensors(tmp_path: Path) -> None:
    """Names of four billion layers would fill the memory."""
    file = tmp_path / "model.gguf"
    write_gguf(file, make(LLAMA), "llama", settings={"block_count": 2**32 - 1})
    assert message(file) == (
        f"{file} is broken: it says that it has 4294967295 layers, and has 39 tensors; fetch it "
        "again"
    )


@pytest.mark.parametrize("length", [10, 3000, -100])
def test_a_file_that_is_cut_off(length: int, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    write_gguf(file, make(LLAMA), "llama")
    content = file.read_bytes()
    file.write_bytes(content[:length])
    assert message(file).startswith(f"the GGUF file {file} is cut off or broken: ")


def test_converting_takes_memory_that_has_to_be_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "model.gguf"
    write_gguf(file, make(LLAMA), "llama")
    monkeypatch.setattr("guided.model.convert.free_memory", lambda _device: 1024)
    assert re.fullmatch(
        rf"converting {file} takes [\d.]+ KiB of memory, and 1.0 KiB are free; convert it on a "
        "larger machine, or use the model's folder of transformers",
        message(file),
    )
