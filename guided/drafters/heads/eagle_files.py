"""Folders of EAGLE-3 heads, in either of the published layouts.

::

                  SafeAILab                          speculators
    config.json   that of a Llama, and               speculators_model_type, speculators_config,
                  draft_vocab_size                   transformer_layer_config, draft_vocab_size
    weights       pytorch_model.bin or safetensors   model.safetensors
    the layer     midlayer.*                         layers.0.*
    both          fc, norm, lm_head; optional: embed_tokens, d2t, t2d, fc_norm, input_norm

Sizes are read from the weights; the config adds what they do not show. ``d2t`` is what to add to a
token of the draft vocabulary to get the target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import torch

from guided.drafters.heads.eagle_module import EagleHead, EagleShape, default_taps, draft_token_mask
from guided.drafters.heads.head_files import (
    read_config,
    read_tensors,
    write_card,
    write_config,
    write_tensors,
)
from guided.errors import ModelError

__all__ = ["EagleLayout", "load_eagle", "save_eagle"]

_FILES: Final = ("model.safetensors", "pytorch_model.bin")
_TAPS: Final = "eagle_aux_hidden_state_layer_ids"
_UNEVEN_ROPES: Final = ("dynamic", "longrope")
_CARD: Final = """
An EAGLE-3 head for {base}. It reads the inputs of layers {taps} of it, and says {draft} of its
{whole} tokens. Layout of {layout}.

{about}
"""


class EagleLayout(StrEnum):
    """The names and the config that a folder has."""

    SPECULATORS = "speculators"
    SAFEAILAB = "SafeAILab"


def load_eagle(folder: str | Path, *, target_layers: int) -> EagleHead:
    """Read a head, in the type of its files; raises ``ModelError`` if there is none.

    ``target_layers`` is how many layers the target has: most configs do not say which of them are
    read, and then ``default_taps`` are.
    """
    path = Path(folder)
    config = read_config(path)
    tensors = {
        name.replace("midlayer.", "layers.0.", 1): tensor
        for name, tensor in read_tensors(path, *_FILES).items()
    }
    shape = _shape(path, config, tensors, target_layers)
    with torch.device("meta"):
        module = EagleHead(shape)
    wanted = module.state_dict()
    _normalise_vocabulary(tensors, shape)
    for name in sorted(wanted.keys() | tensors.keys()):
        if name not in wanted or name not in tensors or wanted[name].shape != tensors[name].shape:
            raise _mismatch_error(path, name, wanted.get(name), tensors.get(name))
    module.load_state_dict(tensors, assign=True)
    _check_draft_ids(path, module)
    # The meta device has no numbers, so tensors that are not weights are made again.
    module.make_angles()
    return module.requires_grad_(False).eval()


def save_eagle(
    folder: str | Path,
    module: EagleHead,
    *,
    base_model: str,
    base_architecture: str = "LlamaForCausalLM",
    about: str = "",
    layout: EagleLayout = EagleLayout.SPECULATORS,
) -> None:
    """Write a head with its config and card.

    ``base_model`` names the target and ``base_architecture`` its class in transformers; the card
    includes ``about``.
    """
    path, shape = Path(folder), module.shape
    tensors = module.state_dict()
    if layout is EagleLayout.SAFEAILAB:
        config = _layer_config(module) | _own_settings(shape)
        config["architectures"] = ["LlamaForCausalLMEagle3"]
        tensors = {
            name.replace("layers.0.", "midlayer.", 1): tensor for name, tensor in tensors.items()
        }
    else:
        config = _speculators_config(module, base_model, base_architecture)
    write_config(path, config)
    write_tensors(path / _FILES[0], tensors)
    text = _CARD.format(
        base=base_model,
        taps=", ".join(map(str, shape.taps)),
        draft=shape.draft_vocabulary_size,
        whole=shape.vocabulary_size,
        layout=layout,
        about=about,
    )
    write_card(path, base_model, f"EAGLE-3 head for {base_model}", text)


# --- reading -------------------------------------------------------------------------------


def _shape(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], layers: int
) -> EagleShape:
    """Return the sizes of a head, by the shapes of its tensors if possible, else by its config.

    ``layers`` are those of the target. Raises ModelError if tensors and config disagree.
    """
    layer = config.get("transformer_layer_config", config)
    fc, head = _matrix(folder, tensors, "fc.weight"), _matrix(folder, tensors, "lm_head.weight")
    query = _matrix(folder, tensors, "layers.0.self_attn.q_proj.weight")
    key = _matrix(folder, tensors, "layers.0.self_attn.k_proj.weight")
    gate = _matrix(folder, tensors, "layers.0.mlp.gate_proj.weight")
    taps = _taps(folder, config, layers)
    if fc.shape[1] % len(taps):
        raise ModelError(
            f"the head of {folder} reads {fc.shape[1]} numbers of {len(taps)} layers of the target"
        )
    heads = int(_setting(folder, layer, "num_attention_heads"))
    _check_layer(folder, layer, query, key, heads)
    size = query.shape[0] // heads
    return EagleShape(
        hidden_size=fc.shape[0],
        intermediate_size=gate.shape[0],
        heads=heads,
        kv_heads=key.shape[0] // size,
        size=size,
        vocabulary_size=_vocabulary(folder, layer, tensors, len(head)),
        draft_vocabulary_size=head.shape[0],
        target_hidden_size=fc.shape[1] // len(taps),
        taps=taps,
        longest=int(layer.get("max_position_embeddings", 4096)),
        epsilon=float(layer.get("rms_norm_eps", 1e-6)),
        rope=_rope(folder, layer),
        has_embedding="embed_tokens.weight" in tensors,
        attention_bias="layers.0.self_attn.q_proj.bias" in tensors,
        has_head_norms="layers.0.self_attn.q_norm.weight" in tensors,
        norm_before_residual=bool(config.get("norm_before_residual", False)),
        norm_before_fc="input_norm.weight" in tensors,
        fc_norm="fc_norm.0.weight" in tensors,
        norm_output=bool(config.get("norm_output", False)),
    )


def _taps(folder: Path, config: Mapping[str, Any], layers: int) -> tuple[int, ...]:
    """Return the layers of the target that are read."""
    nested = config.get("eagle_config") or {}
    configured = config.get(_TAPS) or nested.get(_TAPS)
    taps = default_taps(layers) if configured is None else tuple(map(int, configured))
    if len({*taps}) < len(taps) or not all(0 <= tap < layers for tap in taps):
        raise ModelError(
            f"the head of {folder} reads the layers {taps} of its target, which has {layers}",
            hint=f"layers are told by {_TAPS} in its config; it may belong to another model",
        )
    return taps


def _vocabulary(
    folder: Path, layer: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], draft: int
) -> int:
    """Return the number of the target's tokens, by what depends on it."""
    if "t2d" in tensors and "d2t" in tensors:
        return len(tensors["t2d"])
    if "embed_tokens.weight" in tensors:
        return len(tensors["embed_tokens.weight"])
    configured = int(_setting(folder, layer, "vocab_size"))
    if configured != draft and "d2t" not in tensors:
        raise ModelError(
            f"the head of {folder} says {draft} of {configured} tokens, but not which: there is no "
            "d2t",
            hint="fetch the rest of its weights",
        )
    return configured


def _normalise_vocabulary(tensors: dict[str, torch.Tensor], shape: EagleShape) -> None:
    """Leave the draft vocabulary in the weights if it is a reduced one, and then whole."""
    if shape.draft_vocabulary_size == shape.vocabulary_size:
        # It may be listed even so, and then says nothing.
        tensors.pop("d2t", None)
        tensors.pop("t2d", None)
    elif "d2t" in tensors and "t2d" not in tensors:
        ids = torch.arange(shape.draft_vocabulary_size) + tensors["d2t"]
        if int(ids.min()) >= 0 and int(ids.max()) < shape.vocabulary_size:
            tensors["t2d"] = draft_token_mask(ids, shape.vocabulary_size)


def _rope(folder: Path, layer: Mapping[str, Any]) -> dict[str, Any]:
    """Return transformers' ``rope_parameters``, which older configs have in two places."""
    configured = layer.get("rope_parameters") or layer.get("rope_scaling") or {}
    rope = dict(configured) | {
        "rope_type": configured.get("rope_type", configured.get("type", "default"))
    }
    rope.setdefault("rope_theta", layer.get("rope_theta", 10000.0))
    rope.pop("type", None)
    if rope["rope_type"] in _UNEVEN_ROPES:
        raise ModelError(
            f"the rotary positions of the head of {folder} are {rope['rope_type']!r}: what is kept "
            "of a token would depend on the length of its text",
            hint="draft with another head",
        )
    return rope


def _check_layer(
    folder: Path, layer: Mapping[str, Any], query: torch.Tensor, key: torch.Tensor, heads: int
) -> None:
    """Raise ModelError unless the one layer is of a kind that ``EagleLayer`` computes."""
    if layer.get("hidden_act", "silu") != "silu":
        raise ModelError(f"the head of {folder} has {layer['hidden_act']!r} between its matrices")
    if int(layer.get("num_hidden_layers", 1)) != 1:
        raise ModelError(f"the head of {folder} has {layer['num_hidden_layers']} layers, not one")
    size = query.shape[0] // heads
    if query.shape[0] % heads or key.shape[0] % size or heads % (key.shape[0] // size):
        raise ModelError(
            f"the attention of {folder} has queries of {query.shape[0]} numbers and keys of "
            f"{key.shape[0]} in {heads} heads"
        )


def _check_draft_ids(folder: Path, module: EagleHead) -> None:
    """Raise ModelError unless the draft vocabulary is ascending ids of the target's vocabulary."""
    ids = module.draft_ids()
    whole = module.shape.vocabulary_size
    is_ascending = bool((ids[1:] > ids[:-1]).all())
    if not is_ascending or int(ids[0]) < 0 or int(ids[-1]) >= whole:
        raise ModelError(
            f"d2t of {folder} names tokens twice, or others than the {whole} of the target"
        )


def _matrix(folder: Path, tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """Return the matrix of a name; ModelError if there is none."""
    found = tensors.get(name)
    if found is None or found.dim() != 2:
        raise ModelError(
            f"the weights of {folder} are no EAGLE-3 head: there is no matrix {name!r}",
            hint="EAGLE-1 and EAGLE-2 heads have other parts, and are not read",
        )
    return found


def _setting(folder: Path, config: Mapping[str, Any], name: str) -> Any:
    if name not in config:
        raise ModelError(f"the config of {folder} does not tell {name}")
    return config[name]


def _mismatch_error(
    folder: Path, name: str, wanted: torch.Tensor | None, found: torch.Tensor | None
) -> ModelError:
    """Return the error for a tensor that does not fit the module; ``None`` stands for no tensor."""
    if wanted is None:
        return ModelError(f"the head of {folder} has a tensor {name!r} that EAGLE-3 does not know")
    if found is None:
        return ModelError(f"the weights of {folder} are incomplete: {name!r} is missing")
    return ModelError(
        f"{name!r} of {folder} has the shape {tuple(found.shape)}, not {tuple(wanted.shape)}"
    )


# --- writing -------------------------------------------------------------------------------


def _layer_config(module: EagleHead) -> dict[str, Any]:
    """Return the config of the layer, as one of a Llama or Qwen 3."""
    shape = module.shape
    kind = "qwen3" if shape.has_head_norms else "llama"
    return {
        "model_type": kind,
        "vocab_size": shape.vocabulary_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.size,
        "hidden_act": "silu",
        "max_position_embeddings": shape.longest,
        "rms_norm_eps": shape.epsilon,
        "attention_bias": shape.attention_bias,
        "tie_word_embeddings": False,
        # Newer readers use the first, older ones the other.
        "rope_parameters": dict(shape.rope),
        "rope_theta": shape.rope["rope_theta"],
        "dtype": str(module.fc.weight.dtype).removeprefix("torch."),
    }


def _own_settings(shape: EagleShape) -> dict[str, Any]:
    """Return the settings that only configs of EAGLE-3 heads have."""
    return {
        "draft_vocab_size": shape.draft_vocabulary_size,
        "target_hidden_size": shape.target_hidden_size,
        "norm_before_residual": shape.norm_before_residual,
        "norm_before_fc": shape.norm_before_fc,
        "fc_norm": shape.fc_norm,
        "norm_output": shape.norm_output,
        _TAPS: list(shape.taps),
    }


def _speculators_config(
    module: EagleHead, base_model: str, base_architecture: str
) -> dict[str, Any]:
    """Return the config of a head, in the form that speculators and vLLM read."""
    proposal = {"proposal_type": "greedy", "speculative_tokens": 5}
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": base_model, "architectures": [base_architecture]},
        },
        "transformer_layer_config": _layer_config(module),
        "tie_word_embeddings": False,
        "dtype": str(module.fc.weight.dtype).removeprefix("torch."),
        **_own_settings(module.shape),
    }
