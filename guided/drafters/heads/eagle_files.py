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
from guided.model.layer_configs import LENGTH_DEPENDENT_ROPES
from guided.model.transformers_calls import reading

__all__ = ["EagleLayout", "load_eagle", "save_eagle"]

_FILES: Final = ("model.safetensors", "pytorch_model.bin")
_TAPS: Final = "eagle_aux_hidden_state_layer_ids"
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
    # transformers knows the kinds of rotary positions, and what each needs.
    with reading("config", path), torch.device("meta"):
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
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    target_layers: int,
) -> EagleShape:
    """Return the sizes of a head, by the shapes of its tensors if possible, else by its config.

    ``tensors`` are those of the files, named as in speculators' layout; ``target_layers`` is the
    number of the target's layers. ``folder`` is for errors, here and below. Raises ModelError if
    tensors and config disagree.
    """
    layer_config = config.get("transformer_layer_config", config)
    fc, head = _matrix(folder, tensors, "fc.weight"), _matrix(folder, tensors, "lm_head.weight")
    query_weight = _matrix(folder, tensors, "layers.0.self_attn.q_proj.weight")
    key_weight = _matrix(folder, tensors, "layers.0.self_attn.k_proj.weight")
    gate = _matrix(folder, tensors, "layers.0.mlp.gate_proj.weight")
    taps = _taps(folder, config, target_layers)
    if fc.shape[1] % len(taps):
        raise ModelError(
            f"the head of {folder} reads {fc.shape[1]} numbers of {len(taps)} layers of the target"
        )
    num_heads = int(_required_setting(folder, layer_config, "num_attention_heads"))
    _check_layer(folder, layer_config, len(query_weight), len(key_weight), num_heads)
    head_dim = len(query_weight) // num_heads
    norm_before_fc, fc_norm = "input_norm.weight" in tensors, "fc_norm.0.weight" in tensors
    if norm_before_fc and fc_norm:
        raise ModelError(f"the head of {folder} has both norms of taps, input_norm and fc_norm")
    return EagleShape(
        hidden_size=fc.shape[0],
        intermediate_size=gate.shape[0],
        heads=num_heads,
        kv_heads=len(key_weight) // head_dim,
        head_dim=head_dim,
        vocabulary_size=_vocabulary(folder, layer_config, tensors, len(head)),
        draft_vocabulary_size=head.shape[0],
        target_hidden_size=fc.shape[1] // len(taps),
        taps=taps,
        max_positions=int(layer_config.get("max_position_embeddings", 4096)),
        norm_epsilon=float(layer_config.get("rms_norm_eps", 1e-6)),
        rope=_rope(folder, layer_config),
        has_embedding="embed_tokens.weight" in tensors,
        attention_bias="layers.0.self_attn.q_proj.bias" in tensors,
        has_head_norms="layers.0.self_attn.q_norm.weight" in tensors,
        norm_before_residual=bool(config.get("norm_before_residual", False)),
        norm_before_fc=norm_before_fc,
        fc_norm=fc_norm,
        norm_output=bool(config.get("norm_output", False)),
    )


def _taps(folder: Path, config: Mapping[str, Any], target_layers: int) -> tuple[int, ...]:
    """Return the layers of the target that are read, by number.

    Raises ModelError unless they are different ones of its ``target_layers``, and at least one.
    """
    nested = config.get("eagle_config") or {}
    configured = config.get(_TAPS) or nested.get(_TAPS)
    taps = default_taps(target_layers) if configured is None else tuple(map(int, configured))
    is_in_target = all(0 <= tap < target_layers for tap in taps)
    if not taps or len({*taps}) < len(taps) or not is_in_target:
        raise ModelError(
            f"the head of {folder} reads the layers {taps} of its target, which has "
            f"{target_layers}",
            hint=f"layers are told by {_TAPS} in its config; it may belong to another model",
        )
    return taps


def _vocabulary(
    folder: Path,
    layer_config: Mapping[str, Any],
    tensors: Mapping[str, torch.Tensor],
    draft_vocabulary_size: int,
) -> int:
    """Return the number of the target's tokens, by what depends on it.

    Raises ModelError if the head predicts fewer, and nothing says which.
    """
    if "t2d" in tensors and "d2t" in tensors:
        return len(tensors["t2d"])
    if "embed_tokens.weight" in tensors:
        return len(tensors["embed_tokens.weight"])
    configured = int(_required_setting(folder, layer_config, "vocab_size"))
    if configured != draft_vocabulary_size and "d2t" not in tensors:
        raise ModelError(
            f"the head of {folder} predicts {draft_vocabulary_size} of {configured} tokens, but "
            "nothing says which: there is no d2t",
            hint="fetch the rest of its weights",
        )
    return configured


def _normalise_vocabulary(tensors: dict[str, torch.Tensor], shape: EagleShape) -> None:
    """Make ``tensors`` have both ``d2t`` and ``t2d`` if the vocabulary is reduced, else neither.

    Without ``d2t``, or if it leads out of the vocabulary, what is missing stays missing.
    """
    if shape.draft_vocabulary_size == shape.vocabulary_size:
        # It may be listed even so, and then says nothing.
        tensors.pop("d2t", None)
        tensors.pop("t2d", None)
    elif "d2t" in tensors and "t2d" not in tensors:
        ids = torch.arange(shape.draft_vocabulary_size) + tensors["d2t"]
        if int(ids.min()) >= 0 and int(ids.max()) < shape.vocabulary_size:
            tensors["t2d"] = draft_token_mask(ids, shape.vocabulary_size)


def _rope(folder: Path, layer_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return transformers' ``rope_parameters``, always with ``rope_type`` and ``rope_theta``.

    Older configs have them as ``rope_scaling`` and ``rope_theta``. Raises ModelError for a kind
    that depends on the length of the text, and for several sets, one for each type of layer: a head
    has one layer.
    """
    configured = layer_config.get("rope_parameters") or layer_config.get("rope_scaling") or {}
    rope = dict(configured) | {
        "rope_type": configured.get("rope_type", configured.get("type", "default"))
    }
    rope.setdefault("rope_theta", layer_config.get("rope_theta", 10000.0))
    rope.pop("type", None)
    if any(isinstance(setting, Mapping) for setting in rope.values()):
        raise ModelError(
            f"the head of {folder} has rotary positions by type of layer, but one layer",
            hint="draft with another head",
        )
    if rope["rope_type"] in LENGTH_DEPENDENT_ROPES:
        raise ModelError(
            f"the rotary positions of the head of {folder} are {rope['rope_type']!r}: what is kept "
            "of a token would depend on the length of its text",
            hint="draft with another head",
        )
    return rope


def _check_layer(
    folder: Path, layer_config: Mapping[str, Any], query_size: int, key_size: int, num_heads: int
) -> None:
    """Raise ModelError unless there is one layer, of SiLU and evenly grouped attention heads.

    ``query_size`` and ``key_size`` are how many numbers a token's queries and keys have in all
    heads, neither of them 0; ``num_heads`` is the number of heads of queries.
    """
    activation = layer_config.get("hidden_act", "silu")
    if activation != "silu":
        raise ModelError(f"the head of {folder} has the activation {activation!r}, not 'silu'")
    num_layers = int(layer_config.get("num_hidden_layers", 1))
    if num_layers != 1:
        raise ModelError(f"the head of {folder} has {num_layers} layers, not one")
    head_dim = query_size // num_heads if num_heads > 0 else 0
    is_even = head_dim > 0 and query_size % num_heads == 0 and key_size % head_dim == 0
    if not is_even or num_heads % (key_size // head_dim):
        raise ModelError(
            f"the attention of {folder} has queries of {query_size} numbers and keys of "
            f"{key_size}, which do not make {num_heads} heads"
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
    """Return the matrix of a name; raises ModelError if there is none, or if it is empty."""
    found = tensors.get(name)
    if found is None or found.dim() != 2 or not found.numel():
        raise ModelError(
            f"the weights of {folder} are no EAGLE-3 head: there is no matrix {name!r}",
            hint="EAGLE-1 and EAGLE-2 heads have other parts, and are not read",
        )
    return found


def _required_setting(folder: Path, config: Mapping[str, Any], name: str) -> Any:
    """Return a setting of a config; raises ModelError if it is missing."""
    if name not in config:
        raise ModelError(f"the config of {folder} does not set {name}")
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
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": shape.max_positions,
        "rms_norm_eps": shape.norm_epsilon,
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
