"""Which class of transformers loads a model that continues texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from guided.errors import ModelError

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["loading_class"]


def loading_class(config: PretrainedConfig | Any, folder: Path) -> Any:
    """One of the automatic classes; a model of texts and images continues texts alone as well.

    Raises ``ModelError`` where transformers knows the config, but no such model.
    """
    import transformers
    from transformers import AutoModelForCausalLM, AutoModelForMultimodalLM
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MULTIMODAL_LM_MAPPING,
    )

    if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
        return AutoModelForCausalLM
    if type(config) in MODEL_FOR_MULTIMODAL_LM_MAPPING:
        return AutoModelForMultimodalLM
    # The text part of a model, saved by itself, is of a type that no automatic class knows.
    for name in config.architectures or []:
        found = getattr(transformers, name, None)
        if getattr(found, "config_class", None) is type(config) and hasattr(found, "generate"):
            return found
    raise ModelError(
        f"{folder} is a {', '.join(config.architectures or []) or config.model_type}, for which "
        "transformers has no model that continues a text",
        hint="choose a causal language model",
    )
