"""Refuses models that cannot run, by their configs, before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from guided.errors import ModelError
from guided.model.layer_configs import known_layer_types
from guided.model.plain_config import PlainConfig

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["quantisation", "refuse_by_config", "require_quantiser"]

_DECODERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""The suffixes of class names that can continue a text."""
_OWN_STATES = frozenset({"recurrent_gemma", "xlstm"})
"""Types that keep a state inside, where it can be neither set nor read."""
_NEEDED = ("hidden_size", "num_hidden_layers", "vocab_size")
_DECODER_HINT = "choose a model that continues a text (a causal language model)"
_OTHER_FORM = "or choose the model in bfloat16, or a GGUF file of it"
_ATTENTION_HINT = "choose a decoder all of whose layers are attention"


def refuse_by_config(config: PretrainedConfig, folder: Path) -> None:
    """Raise ``ModelError`` with the reason if a model cannot run, before anything is loaded."""
    classes = config.architectures or []
    if config.is_encoder_decoder or not (not classes or any(map(_continues, classes))):
        raise ModelError(
            f"{folder} is not a decoder but a {', '.join(classes) or config.model_type}",
            hint=_DECODER_HINT,
        )
    kind = ", ".join(classes) or config.model_type
    text = config.get_text_config()
    for name in _NEEDED:
        if getattr(text, name, None) is None:
            raise ModelError(
                f"{folder} is a {kind}, whose config does not say {name}: it is not one stack of "
                "layers",
                hint=_ATTENTION_HINT,
            )
    if text.model_type in _OWN_STATES:
        raise ModelError(
            f"{folder} is a {kind}, which keeps the state of its layers in a way of its own, so it "
            "cannot be taken back when a guess was wrong",
            hint=_ATTENTION_HINT,
        )
    for layer in getattr(text, "layer_types", None) or ():
        if layer not in known_layer_types():
            raise ModelError(
                f"{folder} is a {kind} with layers of type {layer!r}, which are not supported",
                hint=_ATTENTION_HINT,
            )
    _refuse_alibi(text, kind, folder)
    if getattr(text, "num_kv_shared_layers", 0) == getattr(text, "num_hidden_layers", None):
        raise ModelError(
            f"{folder} is a {kind}, all of whose layers read the keys of another model",
            hint="choose that model; such an assistant answers nothing alone",
        )
    # Other values name tokens with bidirectional attention, such as an image's; texts have none.
    if getattr(text, "use_bidirectional_attention", None) is True:
        raise ModelError(
            f"{folder} is a {kind} whose tokens see those after them (use_bidirectional_attention "
            "in its config), so it does not continue a text",
            hint=_DECODER_HINT,
        )


def _continues(kind: str) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return kind.endswith(_DECODERS) or kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()


def _refuse_alibi(text: PretrainedConfig, kind: str, folder: Path) -> None:
    """Raise ModelError for a model that adds a bias by distance to its attention scores."""
    attention = getattr(text, "attn_config", None)
    has_alibi = getattr(text, "alibi", False) or getattr(attention, "alibi", False)
    if has_alibi or text.model_type == "bloom":
        raise ModelError(
            f"{folder} is a {kind}, which adds positions to its attention scores (ALiBi); that is "
            "not supported",
            hint="choose a model with rotary or learned positions",
        )


def quantisation(config: PretrainedConfig | PlainConfig) -> str | None:
    """Return how a model's weights were quantised, such as ``gptq``; ``None`` if they were not."""
    told: Any = getattr(config, "quantization_config", None)
    if told is None:
        return None
    method = told.get("quant_method") if isinstance(told, dict) else told.quant_method
    return str(getattr(method, "value", method))


def require_quantiser(config: PretrainedConfig, folder: Path) -> None:
    """Raise ``ModelError`` if weights are quantised and their reader is not installed."""
    method = quantisation(config)
    if method is None:
        return
    from transformers.quantizers.auto import AutoHfQuantizer

    try:
        # Typed as taking only a config, and documented as taking a dictionary as well.
        from_config: Any = AutoHfQuantizer.from_config
        from_config(config.quantization_config, pre_quantized=True).validate_environment()
    # Each method checks for what it needs in its own way.
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"the weights of {folder} are quantised with {method!r}, which transformers cannot "
            f"read here: {reason}",
            hint=f"install what it asks for, {_OTHER_FORM}",
        ) from error
