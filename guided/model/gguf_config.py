"""The config that a GGUF file describes: every setting is applied, or refused by name.

Transformers reads some of the settings and leaves the others at the values of one checkpoint, so a
model would silently run a little wrong. Here the file's settings are compared, and an unknown
setting is an error.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from guided.errors import ModelError

__all__ = [
    "GGUF_ARCHITECTURES",
    "GGUF_TYPES",
    "GgufHeader",
    "end_ids",
    "read_gguf_config",
    "read_gguf_header",
    "refuse_gguf",
]

GGUF_ARCHITECTURES = ("gemma2", "gemma3", "gpt2", "llama", "phi3", "qwen2", "qwen3")
"""Architectures that are converted exactly, as tested."""

GGUF_TYPES = (
    *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
    *("TQ1_0", "TQ2_0", "MXFP4"),
)
"""Types of ggml that are unpacked, each tested."""

_SETTINGS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "vocab_size": "vocab_size",
}
"""Their names in a config of transformers."""

_ENDS = ("ggml.eos_token_id", "ggml.eot_token_id", "ggml.eom_token_id")
"""Tokens that end a text, a turn, or a message."""
_HEAD_SIZES = ("attention.key_length", "attention.value_length", "rope.dimension_count")
_LLAMA3_FACTORS = (8.0, 32.0)
"""By how much models of the Llama 3 family slow down their lowest rotary frequencies."""
_LOW, _HIGH, _LEARNT_LENGTH = 1.0, 4.0, 8192
_ODD_ATTENTION_SCALE = {"gemma2": 46, "gemma3": 62}
"""Layers of the one size of each family (27B) that scales scores by hidden size per head."""
_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata and the kinds of tensors."""

    architecture: str
    """The name in llama.cpp."""
    settings: Mapping[str, Any]
    """Those of the architecture, without its prefix: ``block_count``, ``rope.freq_base`` ..."""
    tokenizer: Mapping[str, Any]
    """Its scalars, and its chat template: ``ggml.model``, ``ggml.pre``, ``chat_template`` ..."""
    types: Mapping[str, int]
    """How many numbers there are of each type of ggml: ``{"Q4_K": 123, "F32": 45}``."""
    rope_factors: tuple[float, ...]
    """The divisors of rotary frequencies; empty if the file has none."""
    special_tensors: tuple[str, ...]
    """Other tensors that are not weights."""
    files: int
    """The number of files over which the model is spread."""
    tensors: int
    """The number of tensors in this file."""

    @property
    def numbers(self) -> int:
        """Weights in all."""
        return sum(self.types.values())


def read_gguf_header(file: Path) -> GgufHeader:
    """Read the header of a file; raises ``ModelError`` for one that is not GGUF or is cut off."""
    from gguf import GGUFReader

    with file.open("rb") as stream:
        if stream.read(4) != _MAGIC:
            raise ModelError(
                f"{file} is not a GGUF file: it does not begin with {_MAGIC.decode()}",
                hint="name a GGUF file, or a model folder of transformers",
            )
    try:
        reader = GGUFReader(file)
        fields = {
            name: field.contents()
            for name, field in reader.fields.items()
            # Vocabulary, scores and merges are long, and nothing here needs them.
            if len(field.data) == 1 or not name.startswith("tokenizer.")
        }
    except (ValueError, IndexError, KeyError, OverflowError, struct.error) as error:
        raise ModelError(
            f"the GGUF file {file} is cut off or broken: {error}", hint="fetch it again"
        ) from error
    architecture = str(fields.get("general.architecture"))
    types: Counter[str] = Counter()
    rope_factors: tuple[float, ...] = ()
    special = []
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            rope_factors = tuple(map(float, tensor.data))
        elif tensor.name.startswith("rope_"):
            special.append(str(tensor.name))
        else:
            types[tensor.tensor_type.name] += int(tensor.n_elements)
    return GgufHeader(
        architecture,
        _below(architecture, fields),
        _below("tokenizer", fields),
        types,
        rope_factors,
        tuple(special),
        int(fields.get("split.count", 1)),
        len(reader.tensors),
    )


def _below(start: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    prefix = f"{start}."
    return {
        name.removeprefix(prefix): value
        for name, value in fields.items()
        if name.startswith(prefix)
    }


def refuse_gguf(file: Path, header: GgufHeader) -> None:
    """Raise ``ModelError`` for an architecture or a type of tensor that cannot be unpacked."""
    if header.architecture not in GGUF_ARCHITECTURES:
        raise ModelError(
            f"{file} is of the architecture {header.architecture!r}, which is not read from GGUF",
            hint=f"choose one of {', '.join(GGUF_ARCHITECTURES)}, or a folder of transformers",
        )
    for kind in header.types:
        if kind not in GGUF_TYPES:
            raise ModelError(
                f"{file} has tensors of the type {kind}, which cannot be unpacked",
                hint=f"choose a file with {', '.join(GGUF_TYPES)}",
            )
    if header.files > 1:
        raise ModelError(
            f"{file} is one of {header.files} files of a model",
            hint="join them with llama-gguf-split --merge",
        )
    blocks = header.settings.get("block_count", 0)
    # Configs and names are made for each layer, however many a broken file says there are.
    if not isinstance(blocks, int) or blocks > header.tensors:
        raise ModelError(
            f"{file} is broken: it says that it has {blocks!r} layers, and has {header.tensors} "
            "tensors",
            hint="fetch it again",
        )
    if header.special_tensors:
        raise ModelError(
            f"{file} has the tensor {header.special_tensors[0]}: rotary positions that depend on "
            "the length of the text are not supported",
            hint="choose a model without them",
        )


def read_gguf_config(file: Path, header: GgufHeader) -> Any:
    """Return the config of transformers, with all settings of the file."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    settings = dict(header.settings)
    for name in [name for name in settings if name in _SETTINGS]:
        _set(config, _SETTINGS[name], settings.pop(name), file, name)
    if "feed_forward_length" in settings:
        attribute = "n_inner" if header.architecture == "gpt2" else "intermediate_size"
        _set(config, attribute, settings.pop("feed_forward_length"), file, "feed_forward_length")
    _set_head_size(config, settings, file)
    for apply in (_set_rope, _set_windows, _set_attention_scale):
        apply(config, settings, header, file)
    for name in (
        "attention.causal",
        "rope.scaling.finetuned",
        "rope.scaling.original_context_length",
    ):
        settings.pop(name, None)
    if settings:
        name, value = next(iter(settings.items()))
        raise _unknown_value_error(file, name, value)
    config.bos_token_id = header.tokenizer.get("ggml.bos_token_id")
    config.pad_token_id = header.tokenizer.get("ggml.padding_token_id")
    config.eos_token_id = end_ids(header)
    return config


def end_ids(header: GgufHeader) -> list[int]:
    """Return the tokens that end an answer."""
    found = (header.tokenizer.get(name) for name in _ENDS)
    return [token for token in found if token is not None]


def _set(config: Any, attribute: str, value: Any, file: Path, name: str) -> None:
    if not hasattr(config, attribute):
        raise _unknown_value_error(file, name, value)
    setattr(config, attribute, value)


def _set_head_size(config: Any, settings: dict[str, Any], file: Path) -> None:
    """Set the size of a head; ModelError if keys and values differ in it."""
    sizes = {name: settings.pop(name) for name in _HEAD_SIZES if name in settings}
    if "attention.key_length" in sizes and hasattr(config, "head_dim"):
        config.head_dim = sizes["attention.key_length"]
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for name, found in sizes.items():
        if found != size:
            raise ModelError(
                f"{file} sets {name} to {found}, but its heads have {size} numbers; that is not "
                "read from GGUF",
                hint="use the model's folder of transformers",
            )


def _set_rope(config: Any, settings: dict[str, Any], header: GgufHeader, file: Path) -> None:
    """Set the rotary positions: bases, scaling, and Llama 3's factors, which GGUF has as a tensor.

    Settings that were read are removed from ``settings``; those left are refused later.
    """
    bases = {"": settings.pop("rope.freq_base", None), "sliding_attention": None}
    bases["sliding_attention"] = settings.pop("rope.freq_base_swa", None)
    kind = settings.pop("rope.scaling.type", "none")
    factor = settings.pop("rope.scaling.factor", 1.0)
    rope = getattr(config, "rope_parameters", None)
    if rope is None:
        return
    everywhere = rope.get("full_attention", rope)
    if bases[""] is not None:
        everywhere["rope_theta"] = bases[""]
    if bases["sliding_attention"] is not None:
        rope["sliding_attention"]["rope_theta"] = bases["sliding_attention"]
    if kind == "linear" and factor != 1.0:
        everywhere |= {"rope_type": "linear", "factor": factor}
    elif kind not in ("none", "linear"):
        raise _unknown_value_error(file, "rope.scaling.type", kind)
    if header.rope_factors:
        everywhere |= _llama3_rope(header.rope_factors, everywhere["rope_theta"], file)


def _llama3_rope(factors: tuple[float, ...], theta: float, file: Path) -> Mapping[str, Any]:
    """Return the parameters that give these factors; the file has only the factors."""
    frequencies = theta ** -(np.arange(len(factors)) / len(factors))
    waves = 2 * np.pi / frequencies
    turns = _LEARNT_LENGTH / waves
    smooth = np.clip((turns - _LOW) / (_HIGH - _LOW), 0, 1)
    for factor in _LLAMA3_FACTORS:
        if np.allclose(1 / ((1 - smooth) / factor + smooth), factors, rtol=1e-3):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": _LOW,
                "high_freq_factor": _HIGH,
                "original_max_position_embeddings": _LEARNT_LENGTH,
            }
    raise ModelError(
        f"{file} scales its rotary positions (rope_freqs.weight) in a way that is not known",
        hint="use the model's folder of transformers",
    )


def _set_windows(config: Any, settings: dict[str, Any], header: GgufHeader, file: Path) -> None:
    """Set which layers of Gemma have a sliding window.

    The pattern is a list with a truth value for each layer, or a number ``n``: every ``n``-th layer
    sees all. For other models a pattern is refused.
    """
    pattern = settings.pop("attention.sliding_window_pattern", None)
    if header.architecture not in ("gemma2", "gemma3"):
        if pattern is not None:
            raise _unknown_value_error(file, "attention.sliding_window_pattern", pattern)
        return
    usual = 6 if header.architecture == "gemma3" else 2
    layers = range(config.num_hidden_layers)
    if isinstance(pattern, list):
        slides: Callable[[int], bool] = lambda layer: bool(pattern[layer])  # noqa: E731
    else:
        slides = lambda layer: (layer + 1) % (pattern or usual) != 0  # noqa: E731
    config.layer_types = [
        "sliding_attention" if slides(layer) else "full_attention" for layer in layers
    ]


def _set_attention_scale(
    config: Any, _settings: dict[str, Any], header: GgufHeader, _file: Path
) -> None:
    """Set the scale of scores, which the file leaves out; it follows from the number of layers."""
    layers = _ODD_ATTENTION_SCALE.get(header.architecture)
    if layers is not None:
        is_odd = config.num_hidden_layers == layers
        of_heads = config.hidden_size // config.num_attention_heads
        config.query_pre_attn_scalar = of_heads if is_odd else config.head_dim


def _unknown_value_error(file: Path, name: str, value: Any) -> ModelError:
    return ModelError(
        f"{file} sets {name} to {value!r}, which is not read from GGUF",
        hint="use the model's folder of transformers",
    )
