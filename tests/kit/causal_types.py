"""Every causal type of the installed transformers, each as small as it can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from transformers import CONFIG_MAPPING, AutoConfig, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

__all__ = ["CAUSAL_TYPES", "END", "PADDING", "VOCABULARY", "tiny_config"]

CAUSAL_TYPES: tuple[str, ...] = tuple(sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES))

_LAYERS = 4
VOCABULARY = 400
"""Slightly more than the tokenizer has, as usual."""
END, PADDING = 0, 1
_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "embedding_size": 32,
    "intermediate_size": 48,
    "n_inner": 48,
    "ffn_dim": 48,
    "d_ff": 48,
    "decoder_ffn_dim": 48,
    "encoder_ffn_dim": 48,
    "num_hidden_layers": _LAYERS,
    "n_layer": _LAYERS,
    "n_layers": _LAYERS,
    "num_layers": _LAYERS,
    "decoder_layers": _LAYERS,
    "encoder_layers": 1,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "n_positions": 512,
    "sliding_window": 6,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "num_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "vocab_size": VOCABULARY,
    "bos_token_id": 2,
    "eos_token_id": END,
    "pad_token_id": PADDING,
    "is_decoder": True,
    "initializer_range": 0.5,
    "init_std": 0.5,
}
_WIDE: dict[str, Any] = {"num_key_value_heads": 4}
_MAMBA: dict[str, Any] = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8}
_TURNS = ["linear_attention", "full_attention"] * 2
_HEADS_OF_LINEAR: dict[str, Any] = {
    "linear_num_heads": 2,
    "linear_head_dim": 8,
    "num_experts_per_token": 2,
    "num_expert_group": 1,
}
_SHARED: dict[str, Any] = {
    "num_kv_shared_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 8,
}
_ASSISTED: dict[str, Any] = {
    "num_kv_shared_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "vocab_size_per_layer_input": 0,
    "hidden_size_per_layer_input": 0,
}
_INKLING: dict[str, Any] = {
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 2,
    "swa_head_dim": 8,
    "sliding_window_size": 6,
    "rel_extent": 16,
    "unpadded_vocab_size": VOCABULARY,
}
_QWEN4: dict[str, Any] = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 8,
    "indexer_compress_ratio": 2,
    "hc_lowrank": 8,
}
_CLOSED: dict[str, Any] = {"index_head_dim": 16, "index_n_heads": 2, "index_topk": 8}
_BLT: dict[str, Any] = {"hidden_size_global": 32}
_SOUND: dict[str, Any] = {
    "num_blocks": 1,
    "nemo_conv_channels": 32,
    "depthwise_separable_out_channel": 32,
}
_TURNED: dict[str, Any] = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
}
_OTHERS: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {**_HEADS_OF_LINEAR, "layer_types": _TURNS},
    "bamba": {**_MAMBA, "attn_layer_indices": [1, 3]},
    "blt": {
        "encoder_hash_byte_group_vocab": 100,
        "encoder_config": _BLT,
        "decoder_config": _BLT,
    },
    "codegen": {"rotary_dim": 4},
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}},
    },
    "cpmant": {"dim_head": 8, "dim_ff": 48, "prompt_types": 4, "segment_types": 4},
    "ctrl": {"dff": 48},
    "dbrx": {
        "max_seq_len": 512,
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 48, "moe_top_k": 2},
    },
    "deepseek_v32": _CLOSED,
    "dots3_note": {
        "vision_config": {
            "pyramid_num_routed": [-1] * _LAYERS,
            "adapter_in_dim": 32,
            "adapter_out_dim": 32,
        },
        "audio_config": {"adapter_input_size": 32, "adapter_out_dim": 32},
    },
    "falcon_h1": {**_MAMBA, "mamba_d_ssm": 64, "mamba_chunk_size": 16},
    "gemma3n_text": {**_SHARED, "laurel_rank": 4, "activation_sparsity_pattern": [0.0] * 4},
    "gemma3n": {
        "text_config": {**_SHARED, "laurel_rank": 4, "activation_sparsity_pattern": [0.0] * 4},
    },
    "gemma4_text": _SHARED,
    "gemma4_unified_text": _SHARED,
    "gemma4": {"text_config": _SHARED},
    "gemma4_unified": {"text_config": _SHARED},
    "gemma4_assistant": {"text_config": _ASSISTED, "backbone_hidden_size": 32, "num_centroids": 8},
    "gemma4_unified_assistant": {
        "text_config": _ASSISTED,
        "backbone_hidden_size": 32,
        "num_centroids": 8,
    },
    "glm_moe_dsa": _CLOSED,
    "got_ocr2": {
        "vision_config": {
            "image_size": 32,
            "mlp_dim": 48,
            "output_channels": 16,
            "global_attn_indexes": [1],
        },
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "num_heads": 4, "window_size": 6},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {**_MAMBA, "layer_types": ["mamba", "attention"] * 2},
    "inkling2_text": _INKLING,
    "inkling_text": _INKLING,
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 4},
    "kimi_linear": {**_HEADS_OF_LINEAR, "layer_types": _TURNS},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "minimax": {"sliding_window": None},
    "mamba2": {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 1},
    "qwen4_exp": {"text_config": _QWEN4},
    "qwen4_exp_text": _QWEN4,
    "qwen2_5_vl": {"text_config": _TURNED},
    "qwen2_vl": {"text_config": _TURNED},
    "reformer": {
        "is_decoder": True,
        "attn_layers": ["local"] * 2,
        "axial_pos_embds": False,
        "feed_forward_size": 48,
        "attention_head_size": 8,
    },
    "roc_bert": {"pronunciation_vocab_size": 300, "shape_vocab_size": 300, "shape_embed_dim": 16},
    "phi4_multimodal": {
        "vision_config": {"image_size": 28, "crop_size": 28},
        "audio_config": _SOUND,
        "eos_token_id": [END],
    },
    "xlstm": {"embedding_dim": 32, "num_blocks": 4, "num_heads": 4},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"layers_block_type": ["linear_attention", "hybrid"] * 2, "n_mamba_heads": 2},
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
        "mamba_d_state": 8,
        "n_mamba_heads": 4,
    },
    "zaya": {"num_experts_per_tok": 1},
}
"""Settings that a type needs in addition, or with another value."""


def tiny_config(model_type: str) -> PretrainedConfig:
    """A config of a type, whose model has some ten thousand numbers."""
    return _tiny(CONFIG_MAPPING[model_type], _OTHERS.get(model_type, {}))


def _tiny(kind: type[PretrainedConfig], others: Mapping[str, Any]) -> PretrainedConfig:
    names = {field.name for field in fields(kind)} | set(kind.attribute_map)
    given = {name: size for name, size in _SIZES.items() if name in names}
    if "kv_lora_rank" in names:
        given["num_key_value_heads"] = given["num_attention_heads"]
    for name, part in _parts(kind).items():
        given[name] = _tiny(part, others.get(name, {}))
    return kind(**given | {k: v for k, v in others.items() if k not in kind.sub_configs})


def _parts(kind: type[PretrainedConfig]) -> dict[str, type[PretrainedConfig]]:
    """The classes of the configs that a config is made of."""
    made_of = {name: spec.model_type for name, spec in kind.sub_configs_defaults.items()}
    return {
        name: CONFIG_MAPPING[made_of[name]] if part is AutoConfig else part
        for name, part in kind.sub_configs.items()
    }
