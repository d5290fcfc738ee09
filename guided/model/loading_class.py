"""Chooses the class of transformers that loads a model which continues texts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from guided.errors import ModelError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

__all__ = ["loading_class", "make_pruned_class"]


def loading_class(config: PretrainedConfig | Any, folder: Path) -> Any:
    """Return one of the automatic classes; a model of texts and images continues texts as well.

    Raises ``ModelError`` if transformers knows the config, but no such model.
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
    # The text part of a model, saved alone, has a type that no automatic class knows.
    for name in config.architectures or []:
        found = getattr(transformers, name, None)
        if getattr(found, "config_class", None) is type(config) and hasattr(found, "generate"):
            return found
    raise ModelError(
        f"{folder} is a {', '.join(config.architectures or []) or config.model_type}, for which "
        "transformers has no model that continues a text",
        hint="choose a causal language model",
    )


def make_pruned_class(
    found: Any, config: PretrainedConfig, prune: Callable[[PreTrainedModel], None]
) -> type[PreTrainedModel]:
    """Return the class of a model, with modules that lose parts as soon as they are made.

    ``found`` is the result of ``loading_class``. Transformers reads only weights that a module has
    room for, so those of the parts are never in memory.
    """
    kind: Any = found
    if hasattr(found, "from_config"):
        # An automatic class reveals its concrete class by a model, which takes no memory here.
        with torch.device("meta"):
            kind = type(found.from_config(copy.deepcopy(config)))

    def make(self: Any, *args: Any, **options: Any) -> None:
        kind.__init__(self, *args, **options)
        prune(self)

    # Weights that it has no room for are not reported.
    ignored = {"_keys_to_ignore_on_load_unexpected": [""]}
    members = {"__init__": make, "__module__": kind.__module__, **ignored}
    made: type[PreTrainedModel] = type(kind.__name__, (kind,), members)
    return made
