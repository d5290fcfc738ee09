"""Models that cannot run on paged attention, by what their config tells."""

from __future__ import annotations

from pathlib import Path

from transformers import PretrainedConfig

from guided.errors import ModelError

__all__ = ["refuse_by_config"]

_DECODERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""How the names of classes end that can continue a text."""
_KNOWN_LAYERS = ("full_attention", "sliding_attention")
_RECURRENT = (
    "attention_hidden_size",
    "conv_L_cache",
    "conv_kernel",
    "linear_conv_kernel_dim",
    "mamba_d_state",
    "ssm_state_size",
    "state_size",
)
"""Settings of layers that keep a state from token to token."""
_DECODER_HINT = "choose a model that continues a text (a causal language model)"
_ATTENTION_HINT = "choose a decoder all of whose layers are attention"


def refuse_by_config(config: PretrainedConfig, folder: Path) -> None:
    """Raise ``ModelError`` for a model that cannot run, and say why, before anything is loaded."""
    classes = config.architectures or []
    continues = not classes or any(kind.endswith(_DECODERS) for kind in classes)
    if config.is_encoder_decoder or not continues:
        raise ModelError(
            f"{folder} is not a decoder but a {', '.join(classes) or config.model_type}",
            hint=_DECODER_HINT,
        )
    kind = ", ".join(classes) or config.model_type
    text = config.get_text_config()
    for name in _RECURRENT:
        if getattr(text, name, None) is not None:
            raise ModelError(
                f"{folder} is a {kind}, whose layers keep a state from token to token ({name} in "
                "its config), which cannot be shared or taken back",
                hint=_ATTENTION_HINT,
            )
    for layer in getattr(text, "layer_types", None) or ():
        if layer not in _KNOWN_LAYERS:
            raise ModelError(
                f"{folder} is a {kind} with layers of type {layer!r}, which are not supported",
                hint=_ATTENTION_HINT,
            )
    _refuse_alibi(text, kind, folder)


def _refuse_alibi(text: PretrainedConfig, kind: str, folder: Path) -> None:
    attention = getattr(text, "attn_config", None)
    has_alibi = getattr(text, "alibi", False) or getattr(attention, "alibi", False)
    if has_alibi or text.model_type == "bloom":
        raise ModelError(
            f"{folder} is a {kind}, which adds positions to its attention scores (ALiBi); that is "
            "not supported",
            hint="choose a model with rotary or learned positions",
        )
