"""The tested architectures, each as small as it can be."""

from __future__ import annotations

from typing import Any

from transformers import (
    Cohere2Config,
    CohereConfig,
    DeepseekV3Config,
    Ernie4_5Config,
    Exaone4Config,
    Gemma2Config,
    Gemma3TextConfig,
    Gemma4TextConfig,
    GemmaConfig,
    Glm4Config,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    GraniteConfig,
    GraniteMoeConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    NemotronConfig,
    Olmo2Config,
    Olmo3Config,
    OPTConfig,
    Phi3Config,
    PhiConfig,
    PhimoeConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    SmolLM3Config,
    StableLmConfig,
    Starcoder2Config,
)

from tests.engine.finite_language import END_IDS

__all__ = ["CONFIGS", "LOGITS_WIDTH", "OTHER_CONFIGS", "SHAPE"]

LOGITS_WIDTH = 288
"""Wider than the vocabulary, as models often are."""

SHAPE: dict[str, Any] = {
    "vocab_size": LOGITS_WIDTH,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "eos_token_id": sorted(END_IDS),
    "bos_token_id": None,
    "pad_token_id": 0,
    "initializer_range": 0.5,
}

CONFIGS: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**SHAPE),
    "mistral_sliding": MistralConfig(**SHAPE, sliding_window=7, head_dim=8),
    "llama_one_key_head": LlamaConfig(**SHAPE | {"num_key_value_heads": 1}),
    "llama_scaled_rope": LlamaConfig(
        **SHAPE,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
    "qwen2": Qwen2Config(**SHAPE),
    "qwen3": Qwen3Config(**SHAPE, head_dim=16),
    "phi": PhiConfig(**SHAPE | {"num_key_value_heads": 4}),
    "phi3": Phi3Config(**SHAPE, sliding_window=9),
    "gemma2_soft_capped": Gemma2Config(
        **SHAPE,
        head_dim=16,
        sliding_window=8,
        attn_logit_softcapping=2.0,
        query_pre_attn_scalar=16,
    ),
    "gemma3_sliding": Gemma3TextConfig(
        **SHAPE,
        head_dim=16,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention"],
        query_pre_attn_scalar=16,
    ),
    "gpt2": GPT2Config(
        vocab_size=LOGITS_WIDTH,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=512,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=0,
        initializer_range=0.5,
    ),
}
"""The configs for all tests of the engine's answers."""


def _sliding(window: int) -> dict[str, Any]:
    return {"sliding_window": window, "layer_types": ["sliding_attention", "full_attention"]}


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in SHAPE.items() if key != name}


_EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def _stretched(rope_type: str, **parameters: Any) -> LlamaConfig:
    rope = {"rope_type": rope_type, "rope_theta": 10000.0, "factor": 4.0} | parameters
    return LlamaConfig(**SHAPE, rope_parameters=rope)


OTHER_CONFIGS: dict[str, PretrainedConfig] = {
    "cohere": CohereConfig(**SHAPE),
    "cohere2": Cohere2Config(**SHAPE, **_sliding(6)),
    "deepseek_v3": DeepseekV3Config(
        **SHAPE | {"num_key_value_heads": 4},
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=12,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        moe_intermediate_size=24,
    ),
    "ernie4_5": Ernie4_5Config(**SHAPE, head_dim=8),
    "exaone4": Exaone4Config(**SHAPE, **_sliding(6)),
    "gemma": GemmaConfig(**SHAPE, head_dim=16),
    "gemma4": Gemma4TextConfig(
        **SHAPE,
        **_sliding(6),
        head_dim=8,
        vocab_size_per_layer_input=LOGITS_WIDTH,
        hidden_size_per_layer_input=8,
    ),
    "glm4": Glm4Config(**SHAPE, head_dim=8),
    "gpt_neox": GPTNeoXConfig(**_without("num_key_value_heads")),
    "gpt_oss": GptOssConfig(**SHAPE, **_sliding(6), head_dim=8, num_local_experts=4),
    "granite": GraniteConfig(
        **SHAPE,
        attention_multiplier=0.2,
        residual_multiplier=0.5,
        embedding_multiplier=3.0,
        logits_scaling=2.0,
    ),
    "granitemoe": GraniteMoeConfig(**SHAPE, num_local_experts=4, num_experts_per_tok=2),
    "llama_linear_rope": _stretched("linear"),
    "llama_yarn_rope": _stretched("yarn", original_max_position_embeddings=32),
    "mixtral": MixtralConfig(**SHAPE, num_local_experts=4),
    "nemotron": NemotronConfig(**SHAPE, head_dim=8),
    "olmo2": Olmo2Config(**SHAPE),
    "olmo3": Olmo3Config(**SHAPE, **_sliding(6)),
    "opt": OPTConfig(
        vocab_size=LOGITS_WIDTH,
        hidden_size=32,
        ffn_dim=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        word_embed_proj_dim=32,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=0,
        init_std=0.5,
    ),
    "phimoe": PhimoeConfig(**SHAPE, num_local_experts=4),
    "qwen2_moe": Qwen2MoeConfig(**SHAPE, **_EXPERTS, shared_expert_intermediate_size=24),
    "qwen3_moe": Qwen3MoeConfig(**SHAPE, **_EXPERTS),
    "smollm3": SmolLM3Config(**SHAPE, no_rope_layers=[1, 0]),
    "stablelm": StableLmConfig(**SHAPE),
    "starcoder2": Starcoder2Config(**SHAPE, sliding_window=7),
}
"""The configs for one test only: that a mixed batch equals ``generate()``."""
