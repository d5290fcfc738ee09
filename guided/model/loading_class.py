"""Which class of transformers loads a model that continues texts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from guided.errors import ModelError

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

__all__ = ["loading_class", "pruned_class"]


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


def pruned_class(
    found: Any, config: PretrainedConfig, prune: Callable[[PreTrainedModel], None]
) -> type[PreTrainedModel]:
    """The class of a model, whose modules lose parts as soon as they are made.

    ``found`` is what ``loading_class`` gives. Transformers reads the weights that a module has room
    for, so those of the parts are never in memory.
    """
    kind: Any = found
    if hasattr(found, "from_config"):
        # An automatic class tells which it stands for by a model, which takes no memory here.
        with torch.device("meta"):
            kind = type(found.from_config(copy.deepcopy(config)))

    def make(self: Any, *args: Any, **options: Any) -> None:
        kind.__init__(self, *args, **options)
        prune(self)

    # What it has no room for is not missed.
    ignored = {"_keys_to_ignore_on_load_unexpected": [""]}
    told = {"__init__": make, "__module__": kind.__module__, **ignored}
    made: type[PreTrainedModel] = type(kind.__name__, (kind,), told)
    return made
