"""Which models of transformers can be computed here, and why others cannot."""

from __future__ import annotations

import torch
from transformers import (
    Gemma3ForCausalLM,
    LlamaForCausalLM,
    MistralForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
)

from guided.model.cpu.attention_task import WIDEST_HEAD
from guided.model.cpu.gating import GATES

__all__ = ["activation", "why_not", "why_not_by_config"]

_KNOWN = (
    LlamaForCausalLM,
    MistralForCausalLM,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
    Gemma3ForCausalLM,
)
_CALL_DEPENDENT_ROPE = ("dynamic", "longrope")
_UNKNOWN_SETTINGS = (
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "use_bidirectional_attention",
)


def why_not(module: PreTrainedModel) -> str | None:
    """Why a model has to be left to transformers, in a few words; ``None`` where it has not."""
    kind = type(module).__name__
    # A class of the same name that overrides a method computes something else.
    if type(module) not in _KNOWN:
        return _not_known(kind)
    if module.device.type != "cpu":
        return f"the weights of {kind} are on {module.device}"
    if reason := _why_not_its_settings(module.config):
        return reason
    size = module.model.layers[0].self_attn.head_dim
    if size > WIDEST_HEAD:
        return f"heads are of {size} numbers, more than {WIDEST_HEAD}"
    return _why_not_its_parts(module)


def why_not_by_config(config: PretrainedConfig) -> str | None:
    """As ``why_not``, as far as it can be told before the weights are loaded."""
    if not any(known.config_class is type(config) for known in _KNOWN):
        return _not_known((config.architectures or [config.model_type])[0])
    return _why_not_its_settings(config)


def _not_known(kind: str) -> str:
    return f"{kind} is not one of {', '.join(known.__name__ for known in _KNOWN)}"


def _why_not_its_settings(config: PretrainedConfig) -> str | None:
    if activation(config) not in GATES:
        return f"the activation {activation(config)!r} is not one of {', '.join(GATES)}"
    for name in _UNKNOWN_SETTINGS:
        if getattr(config, name, None):
            return f"the config sets {name}"
    rope = config.rope_parameters
    sets = [one for one in (rope, *rope.values()) if isinstance(one, dict)]
    for kind_of_rope in (one.get("rope_type") for one in sets):
        if kind_of_rope in _CALL_DEPENDENT_ROPE:
            return f"{kind_of_rope!r} rotary positions depend on the longest sequence of a call"
    if any(one.get("partial_rotary_factor", 1.0) != 1.0 for one in sets):
        return "only a part of each head is rotated"
    return None


def activation(config: PretrainedConfig) -> str:
    """The name of the activation of gates."""
    name: str = getattr(config, "hidden_act", None) or config.hidden_activation
    return name


def _why_not_its_parts(module: PreTrainedModel) -> str | None:
    for name, part in module.named_modules():
        is_matrix = name.endswith(("_proj", "lm_head"))
        if is_matrix and type(part) is not torch.nn.Linear:
            return f"{name} is a {type(part).__name__}, not a plain matrix"
    for name, parameter in module.named_parameters():
        if not parameter.dtype.is_floating_point:
            return f"{name} is of {parameter.dtype}"
    return None
