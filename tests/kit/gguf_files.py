"""GGUF files of tiny models, written as llama.cpp's converter writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedModel

__all__ = ["BYTE_TOKENS", "MERGES", "pack", "rounded", "write_gguf"]

MERGES = ("h e", "l l", "he ll", "hell o", "Ġ Ġ", "1 2", "Ġ 1")
BYTE_TOKENS = (
    "<|end|>",
    "<|turn|>",
    *sorted(ByteLevel.alphabet()),
    *(merge.replace(" ", "") for merge in MERGES),
)
"""A byte-level vocabulary, its two control tokens first."""
_CONTROL, _NORMAL = 3, 1
_DRAWN = 4096
"""Number of random blocks; those whose numbers are as large as weights are used."""


def pack(weight: np.ndarray, kind: gguf.GGMLQuantizationType) -> np.ndarray:
    """The rows of a matrix as blocks, or random blocks of its shape if `gguf` cannot pack them.

    It unpacks every type of ggml, but packs only some. Equal shapes get equal random blocks.
    """
    try:
        packed: np.ndarray = gguf.quants.quantize(weight, kind)
    except NotImplementedError:
        numbers, nbytes = gguf.GGML_QUANT_SIZES[kind]
        rng = np.random.default_rng(weight.shape)
        blocks = rng.integers(0, 256, (_DRAWN, nbytes), dtype=np.uint8)
        with np.errstate(over="ignore", invalid="ignore"):
            largest = np.abs(gguf.quants.dequantize(blocks, kind)).max(axis=1)
        blocks = blocks[(largest > 0.01) & (largest < 1)]
        packed = rng.choice(blocks, (len(weight), weight.shape[1] // numbers))
        packed = packed.reshape(len(weight), -1)
    return packed


def rounded(model: PreTrainedModel, kind: gguf.GGMLQuantizationType) -> PreTrainedModel:
    """The model with matrices rounded to the numbers of such blocks, so that a file loses nothing.

    Not for `llama` with types that `gguf` cannot pack: its queries are written in another order.
    """
    for weight in model.parameters():
        if weight.ndim == 2:
            packed = pack(weight.detach().numpy(), kind)
            weight.data = torch.from_numpy(gguf.quants.dequantize(packed, kind))
    return model


def write_gguf(
    file: Path,
    model: PreTrainedModel,
    architecture: str,
    *,
    settings: Mapping[str, Any] = {},
    pre: str = "gpt-2",
    quantised: gguf.GGMLQuantizationType | None = None,
    chat_template: str | None = None,
    skipped: str | None = None,
    parts: int = 1,
    tensors: Mapping[str, Any] = {},
) -> None:
    """Write a file; ``settings`` go below the architecture, besides those of every decoder."""
    writer = gguf.GGUFWriter(file, architecture)
    config = model.config.get_text_config()
    _write_settings(writer, config, architecture, settings)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(BYTE_TOKENS)
    writer.add_token_types([_CONTROL] * 2 + [_NORMAL] * (len(BYTE_TOKENS) - 2))
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(0)
    writer.add_eot_token_id(1)
    if parts > 1:
        writer.add_uint16("split.count", parts)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    for name, weight in _weights(model, architecture, config).items():
        if name == skipped:
            continue
        if quantised is not None and weight.ndim == 2:
            writer.add_tensor(name, pack(weight, quantised), raw_dtype=quantised)
        else:
            writer.add_tensor(name, weight)
    for name, weight in tensors.items():
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_settings(
    writer: gguf.GGUFWriter, config: Any, architecture: str, settings: Mapping[str, Any]
) -> None:
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    found: dict[str, Any] = {
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers,
        "feed_forward_length": getattr(config, "intermediate_size", 4 * config.hidden_size),
        "attention.head_count": heads,
        "vocab_size": config.vocab_size,
    }
    if architecture == "gpt2":
        found["attention.layer_norm_epsilon"] = config.layer_norm_epsilon
    else:
        rope = config.rope_parameters
        found |= {
            "attention.head_count_kv": config.num_key_value_heads,
            "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
            "attention.key_length": size,
            "attention.value_length": size,
            "rope.dimension_count": size,
            "rope.freq_base": float(rope.get("full_attention", rope)["rope_theta"]),
        }
    for name, value in (found | dict(settings)).items():
        key = f"{architecture}.{name}"
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case _:
                writer.add_array(key, value)


def _weights(model: PreTrainedModel, architecture: str, config: Any) -> dict[str, Any]:
    """The weights by ggml's names and in its layout."""
    (kind,) = (key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    weights = {}
    for name, tensor in model.state_dict().items():
        stem, _, suffix = name.rpartition(".")
        is_tied = name == "lm_head.weight" and config.tie_word_embeddings
        found = names.get_name(stem)
        if is_tied or found is None:
            continue
        weight = tensor.float()
        if architecture == "llama" and stem.endswith(("q_proj", "k_proj")):
            weight = _interleaved(weight, config, is_key=stem.endswith("k_proj"))
        if architecture.startswith("gemma") and stem.endswith("norm"):
            weight = weight + 1
        if architecture == "gpt2" and stem.endswith(("c_attn", "c_proj", "c_fc")):
            weight = weight.T if suffix == "weight" else weight
        weights[f"{found}.{suffix}"] = np.ascontiguousarray(weight.numpy())
    return weights


def _interleaved(weight: torch.Tensor, config: Any, *, is_key: bool) -> torch.Tensor:
    """The two halves of each head woven together, as ggml's rotation for llama has it."""
    heads = config.num_key_value_heads if is_key else config.num_attention_heads
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1)
    return halves.swapaxes(1, 2).reshape(weight.shape)
