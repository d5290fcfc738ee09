"""The config of the most usual kind of model, without what transformers imports to read one.

To read ``config.json`` of a Llama, transformers 5 imports 900 modules, which takes a second of a
server's start. A file that gives every setting outright, and nothing that is unknown here, means
the same to both readers; nothing is guessed for any other file, which transformers reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["PlainConfig", "read_plain_config"]

_REQUIRED = frozenset(
    {
        *("architectures", "attention_bias", "head_dim", "hidden_act", "hidden_size"),
        *("eos_token_id", "intermediate_size", "max_position_embeddings", "mlp_bias"),
        *("model_type", "num_attention_heads", "num_hidden_layers", "num_key_value_heads"),
        *("rms_norm_eps", "rope_parameters", "tie_word_embeddings", "vocab_size"),
    }
)
"""The settings that are read anywhere."""
_WITHOUT_EFFECT = frozenset(
    {
        *("_model_name_or_path", "_name_or_path", "attention_dropout", "bos_token_id", "dtype"),
        *("initializer_range", "pad_token_id", "pretraining_tp", "transformers_version"),
        *("unk_token_id", "use_cache"),
    }
)
"""Settings that change nothing in an answer."""


class PlainConfig:
    """Settings as attributes, under their names in transformers."""

    model_type: str

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)
        vars(self).update(self._settings)

    def __getattr__(self, name: str) -> Any:
        # For type checkers: settings are attributes of the instance.
        raise AttributeError(name)

    def get_text_config(self) -> PlainConfig:
        """Return itself, being the config of a model of texts alone."""
        return self

    def to_json_string(self) -> str:
        """Return all settings, in a fixed order."""
        return json.dumps(self._settings, sort_keys=True)


def read_plain_config(folder: Path) -> PlainConfig | None:
    """Read the config of a folder; ``None`` if transformers has to read it."""
    try:
        settings = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None  # transformers reports what is wrong with it
    if not isinstance(settings, dict) or not _is_plain(settings):
        return None
    return PlainConfig(settings)


def _is_plain(settings: Mapping[str, Any]) -> bool:
    """Whether settings are those of a Llama without anything that has to be interpreted."""
    names = settings.keys()
    if not names >= _REQUIRED or names - _REQUIRED - _WITHOUT_EFFECT:
        return False
    rope = settings["rope_parameters"]
    return (
        settings["architectures"] == ["LlamaForCausalLM"]
        and settings["model_type"] == "llama"
        and all(settings[name] is not None for name in _REQUIRED - {"eos_token_id"})
        and isinstance(rope, dict)
        and rope.keys() == {"rope_theta", "rope_type"}
        and rope["rope_type"] == "default"
    )
