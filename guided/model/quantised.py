"""Weights that another program quantised, which transformers reads with that program's package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from guided.errors import ModelError
from guided.model.plain_config import PlainConfig

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["quantisation", "require_quantiser"]

_OTHER_FORM = "or choose the model in bfloat16, or a GGUF file of it"


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
