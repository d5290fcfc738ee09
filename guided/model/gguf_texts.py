"""What a GGUF file contains besides its weights, kept in a folder: config, tokenizer, and the
places of its tensors, so that later starts need not read the header, whose vocabulary takes
seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, cast

from guided.errors import ModelError
from guided.model.convert import gguf_tokenizer
from guided.model.cpu import BLOCK_TYPES, StoredTensor
from guided.model.gguf_config import (
    GgufHeader,
    end_ids,
    read_gguf_config,
    read_gguf_header,
    refuse_gguf,
)
from guided.model.gguf_reader import read_once
from guided.model.progress import Progress
from guided.model.transformers_calls import quiet_transformers, reading

__all__ = ["REASON", "read_tensors", "why_not_stored", "write_texts"]

_ARCHITECTURES: Final = ("gemma3", "llama", "qwen2", "qwen3")
"""Architectures that our own forward pass computes."""
_FLOATS: Final = ("F32", "F16", "BF16")
_TENSORS: Final = "tensors.json"
REASON: Final = "not_stored.txt"
"""Contains why a file's weights are not used as stored."""


def why_not_stored(header: GgufHeader) -> str | None:
    """Return briefly why a file's weights cannot be used as stored; ``None`` if they can."""
    if header.architecture not in _ARCHITECTURES:
        return f"the architecture {header.architecture!r} is not one of {', '.join(_ARCHITECTURES)}"
    blocks = [kind for kind in header.types if kind not in _FLOATS]
    if not blocks:
        return f"it holds no blocks, only {', '.join(header.types)}"
    if unknown := [kind for kind in blocks if kind not in BLOCK_TYPES]:
        return f"blocks of the type {unknown[0]} are not one of {', '.join(BLOCK_TYPES)}"
    return None


def write_texts(file: Path, folder: Path, progress: Progress) -> None:
    """Write a new folder, with nothing but a ``REASON`` if ``why_not_stored`` has one.

    Raises ``ModelError`` for anything that would not convert exactly.
    """
    from transformers import GenerationConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    with read_once(file):
        with progress.step(f"reading the header of {file.name}"):
            header = read_gguf_header(file)
        refuse_gguf(file, header)
        folder.mkdir(parents=True)
        if (reason := why_not_stored(header)) is not None:
            (folder / REASON).write_text(reason, "utf-8")
            return
        with progress.step(f"reading config and tokenizer of {file.name}"), quiet_transformers():
            with reading("tokenizer", file):
                tokenizer = gguf_tokenizer(file, header)
            with reading("config", file):
                config = read_gguf_config(file, header)
            config.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type]]
            tensors = _tensors(file, header, config)
            config.save_pretrained(folder)
            ends: Any = cast("Any", GenerationConfig)(eos_token_id=end_ids(header))
            ends.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            entries = {name: tensor._asdict() for name, tensor in tensors.items()}
            (folder / _TENSORS).write_text(json.dumps(entries, indent=1), "utf-8")


def read_tensors(file: Path, folder: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a file by the names of transformers, as ``write_texts`` found them.

    Raises ``ModelError`` if the file is shorter than they are.
    """
    entries = json.loads((folder / _TENSORS).read_text("utf-8"))
    tensors = {
        name: StoredTensor(**tensor | {"shape": tuple(tensor["shape"])})
        for name, tensor in entries.items()
    }
    size = file.stat().st_size
    if any(tensor.offset + tensor.nbytes > size for tensor in tensors.values()):
        raise ModelError(f"the GGUF file {file} is cut off", hint="fetch it again")
    return tensors


def _tensors(file: Path, header: GgufHeader, config: Any) -> dict[str, StoredTensor]:
    """Return where each tensor lies in the file, by its name in transformers."""
    import gguf

    (kind,) = (each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == header.architecture)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    ours = {names.get_name(name): name for name in _parts(config)}
    found = {}
    for tensor in gguf.GGUFReader(file).tensors:
        if tensor.name == "rope_freqs.weight":
            continue
        stem, _, suffix = tensor.name.rpartition(".")
        shape = tuple(int(size) for size in reversed(tensor.shape))
        found[f"{ours.get(stem, stem)}.{suffix}"] = StoredTensor(
            kind=tensor.tensor_type.name,
            shape=shape,
            offset=int(tensor.data_offset),
            nbytes=int(tensor.n_bytes),
            woven_heads=_num_interleaved_heads(stem, header, config),
            added=1 if header.architecture == "gemma3" and stem.endswith("norm") else 0,
        )
    return found


def _parts(config: Any) -> list[str]:
    """Return the names of transformers, without their last part."""
    of_layer = (
        *("input_layernorm", "post_attention_layernorm"),
        *("pre_feedforward_layernorm", "post_feedforward_layernorm"),
        *(f"self_attn.{part}_proj" for part in "qkvo"),
        *("self_attn.q_norm", "self_attn.k_norm"),
        *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    )
    layers = range(config.num_hidden_layers)
    named = [f"model.layers.{layer}.{part}" for layer in layers for part in of_layer]
    return ["model.embed_tokens", "model.norm", "lm_head", *named]


def _num_interleaved_heads(stem: str, header: GgufHeader, config: Any) -> int:
    """Return the heads whose halves are interleaved, as ggml's rotation for Llama needs them."""
    if header.architecture != "llama":
        return 0
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    return int(heads.get(stem.rpartition(".")[2], 0))
