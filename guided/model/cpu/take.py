"""Taking the weights out of a model of transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from transformers import Gemma3ForCausalLM, MistralForCausalLM, PreTrainedModel
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm

from guided.errors import ModelError
from guided.model.cpu.decoder import CpuDecoder
from guided.model.cpu.dots import DOTS, can_dot
from guided.model.cpu.gating import GATES
from guided.model.cpu.int8_linear import Int8Linear, is_kept_twice
from guided.model.cpu.large_pages import LargePages
from guided.model.cpu.layer import DecoderWeights, LayerWeights
from guided.model.cpu.linear import Bf16Linear, Fp32Linear, Linear, Numbers
from guided.model.cpu.pairs import PairedLinear
from guided.model.cpu.refusal import activation, why_not
from guided.model.cpu.tiles import TILES, can_tile
from guided.model.cpu.weight_format import WeightFormat, require_format

__all__ = ["take_decoder"]

_Kind = Callable[[torch.Tensor, torch.Tensor | None], Linear]


def _kind(weight_format: WeightFormat, *, streams: bool) -> _Kind:
    if weight_format is WeightFormat.FP32:
        return Fp32Linear
    if weight_format is WeightFormat.INT8:
        return partial(Int8Linear, memory=LargePages() if streams or not is_kept_twice() else None)
    pair_kernel = TILES if can_tile() else DOTS if can_dot() else None
    if pair_kernel is None:
        return Bf16Linear
    return partial(PairedLinear, memory=LargePages(), pair_kernel=pair_kernel)


def take_decoder(
    module: PreTrainedModel, weight_format: WeightFormat, *, streams: bool = True
) -> CpuDecoder:
    """A decoder with the weights of ``module``, which loses each matrix once it is taken.

    ``streams`` keeps matrices of int8 a second time where ``is_kept_twice``.

    Raises ``ModelError``, and leaves the module whole, where ``why_not`` has a reason or the
    processor cannot multiply the format.
    """
    if reason := why_not(module):
        raise ModelError(
            f"this model has no forward pass of its own on the CPU: {reason}",
            hint="let transformers compute it",
        )
    require_format(weight_format)
    with torch.no_grad():
        decoder = CpuDecoder(_weights(module, _kind(weight_format, streams=streams)))
        if weight_format is not WeightFormat.FP32:
            _let_go_of_files(module)
    return decoder


def _let_go_of_files(module: PreTrainedModel) -> None:
    """What is left, the embedding above all, may lie in a file that is mapped whole."""
    for parameter in module.parameters():
        parameter.data = parameter.data.clone()


def _weights(module: Any, kind: _Kind) -> DecoderWeights:
    base, config = module.model, module.config
    return DecoderWeights(
        embed=base.embed_tokens,
        angles=base.rotary_emb,
        layers=tuple(_layer(module, number, kind) for number in range(len(base.layers))),
        last_norm=_norm(base.norm),
        head=_matrix(kind, module.lm_head, is_shared=_has_tied_embeddings(module)),
        epsilon=float(config.rms_norm_eps),
        heads=int(config.num_attention_heads),
        kv_heads=int(config.num_key_value_heads),
        size=int(base.layers[0].self_attn.head_dim),
    )


def _layer(module: Any, number: int, kind: _Kind) -> LayerWeights:
    layer, config = module.model.layers[number], module.config
    attention, mlp = layer.self_attn, layer.mlp
    is_gemma = isinstance(module, Gemma3ForCausalLM)
    # Gemma has a norm behind each part as well, and shifts the names.
    before_mlp = layer.pre_feedforward_layernorm if is_gemma else layer.post_attention_layernorm
    return LayerWeights(
        attention_norm=_norm(layer.input_layernorm),
        mixed=_matrix(kind, attention.q_proj, attention.k_proj, attention.v_proj),
        head_norms=_head_norms(attention),
        output=_matrix(kind, attention.o_proj),
        after_attention=_norm(layer.post_attention_layernorm) if is_gemma else None,
        mlp_norm=_norm(before_mlp),
        both=_matrix(kind, mlp.gate_proj, mlp.up_proj),
        gate=GATES[activation(config)],
        down=_matrix(kind, mlp.down_proj),
        after_mlp=_norm(layer.post_feedforward_layernorm) if is_gemma else None,
        window=_window(module, attention),
        kind=config.layer_types[number] if is_gemma else None,
        scale=float(attention.scaling),
    )


def _window(module: Any, attention: Any) -> int | None:
    owner = module.config if isinstance(module, MistralForCausalLM) else attention
    window: int | None = getattr(owner, "sliding_window", None)
    return window


def _head_norms(attention: Any) -> tuple[Numbers, Numbers] | None:
    if not hasattr(attention, "q_norm"):
        return None
    return _norm(attention.q_norm), _norm(attention.k_norm)


def _norm(norm: Any) -> Numbers:
    # Gemma keeps what is left of a weight when 1 is taken away.
    offset = 1 if isinstance(norm, Gemma3RMSNorm) else 0
    weight: Numbers = (norm.weight.float() + offset).numpy()
    return weight


def _matrix(kind: _Kind, *parts: torch.nn.Linear, is_shared: bool = False) -> Linear:
    """Matrices one below the other; theirs are gone then, unless another part needs them."""
    weights = [part.weight.detach() for part in parts]
    weight = torch.cat(weights) if weights[1:] else weights[0]
    matrix = kind(weight, _bias(parts))
    if not is_shared:
        for part in parts:
            part.weight.data = torch.empty(0)
    return matrix


def _bias(parts: Sequence[torch.nn.Linear]) -> torch.Tensor | None:
    if all(part.bias is None for part in parts):
        return None
    own = [
        part.weight.new_zeros(part.out_features) if part.bias is None else part.bias.detach()
        for part in parts
    ]
    return torch.cat(own)


def _has_tied_embeddings(module: Any) -> bool:
    return bool(module.lm_head.weight.data_ptr() == module.model.embed_tokens.weight.data_ptr())
