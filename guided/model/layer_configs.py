"""What a config says of each layer; some configs have settings for each layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guided.kv.layer_groups import NO_KEYS, LayerShape
from guided.model.plain_config import PlainConfig

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = [
    "LENGTH_DEPENDENT_ROPES",
    "inner_size",
    "is_recurrent",
    "keep_keys",
    "known_layer_types",
    "layer_configs",
    "layer_shapes",
    "layer_windows",
    "rope_settings",
]

LENGTH_DEPENDENT_ROPES = frozenset({"dynamic", "longrope"})
"""Ways of stretching rotary positions for which a call's longest text decides: see ``longest_text``
of ``guided.model.model_files``."""

_ATTENTION = frozenset({"full_attention", "sliding_attention"})
_BOTH = frozenset({"hybrid"})
"""Types with attention, and a state beside it or before it."""
_STATE = frozenset({"conv", "linear_attention"})
_NEITHER = frozenset({"mlp", "moe"})
_STATE_TYPES = frozenset({"rwkv"})
"""Types of models all of whose layers keep a state, which their configs do not say."""


def known_layer_types() -> frozenset[str]:
    """Return the types of layers that configs may name."""
    return _ATTENTION | _BOTH | _STATE | _NEITHER


def layer_configs(config: PretrainedConfig | PlainConfig) -> list[Any]:
    """Return the config of each layer of a model of texts.

    A config with settings for each layer refuses to be read as a whole.
    """
    text = config.get_text_config()
    count = int(text.num_hidden_layers)
    if getattr(text, "is_heterogeneous", False):
        return [text.per_layer_config[layer] for layer in range(count)]
    return [text] * count


def layer_shapes(config: PretrainedConfig | PlainConfig) -> tuple[LayerShape, ...]:
    """Return what each layer keeps of a token, if it keeps what most models do."""
    pairs = zip(layer_configs(config), keep_keys(config), strict=True)
    return tuple(_shape(layer) if keeps else NO_KEYS for layer, keeps in pairs)


def keep_keys(config: PretrainedConfig | PlainConfig) -> tuple[bool, ...]:
    """Return for each layer whether it has attention, and so keeps keys and values of tokens."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds is None:
        return (text.model_type not in _STATE_TYPES,) * int(text.num_hidden_layers)
    return tuple(kind not in _STATE | _NEITHER for kind in kinds)


def is_recurrent(config: PretrainedConfig | PlainConfig) -> bool:
    """Whether some layers keep a state from token to token."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None) or ()
    return text.model_type in _STATE_TYPES or not (_STATE | _BOTH).isdisjoint(kinds)


def _shape(layer: Any) -> LayerShape:
    heads = int(layer.num_attention_heads)
    size = int(getattr(layer, "head_dim", None) or layer.hidden_size // heads)
    kept = int(getattr(layer, "num_key_value_heads", None) or heads)
    return LayerShape(kept, size, size)


def layer_windows(config: PretrainedConfig | PlainConfig) -> tuple[int | None, ...]:
    """Return how many positions a token sees in each layer, including its own; ``None`` is all."""
    kinds = getattr(config.get_text_config(), "layer_types", None)
    windows: list[int | None] = [
        getattr(layer, "sliding_window", None) or None for layer in layer_configs(config)
    ]
    if kinds is None:
        return tuple(windows)
    pairs = zip(windows, kinds, strict=True)
    return tuple(window if kind == "sliding_attention" else None for window, kind in pairs)


def inner_size(config: PretrainedConfig | PlainConfig) -> int:
    """Return the most numbers that a layer has between its two last matrices."""
    hidden = int(config.get_text_config().hidden_size)
    sizes: list[int] = []
    for layer in layer_configs(config):
        size = getattr(layer, "intermediate_size", None) or 4 * hidden
        sizes.extend(size if isinstance(size, list) else [size])
    return max(sizes)


def rope_settings(config: PretrainedConfig | PlainConfig) -> list[dict[str, Any]]:
    """Return the settings of rotary positions: one set, or one for each type of layer."""
    rope = getattr(config, "rope_parameters", None) or {}
    return [one for one in (rope, *rope.values()) if isinstance(one, dict)]
