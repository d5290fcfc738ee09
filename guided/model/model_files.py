"""A model that was found and of which nothing is loaded yet, or what its config refuses it for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from guided.errors import ModelError
from guided.kv.layer_groups import LayerShape
from guided.model.checkpoint import Checkpoint, read_checkpoint
from guided.model.default_model import DEFAULT_MODEL
from guided.model.plain_config import PlainConfig, read_plain_config
from guided.model.progress import Progress, RichProgress
from guided.model.resolve import resolve_model
from guided.model.transformers_calls import reading

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["ModelFiles", "find_model", "longest_text", "read_config"]

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


@dataclass(frozen=True, slots=True, eq=False)
class ModelFiles:
    """A folder of transformers, and what its small files and the headers of its weights say."""

    name: str
    """As the caller called it, or the name of the default model."""
    folder: Path
    config: PretrainedConfig | PlainConfig
    checkpoint: Checkpoint
    context_window: int
    """Tokens that prompt and answer may have together."""

    @property
    def layers(self) -> tuple[LayerShape, ...]:
        """What each layer keeps for a token."""
        config = self.config.get_text_config()
        heads = int(config.num_attention_heads)
        size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
        kept = int(getattr(config, "num_key_value_heads", None) or heads)
        return (LayerShape(kept, size, size),) * int(config.num_hidden_layers)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """By layer, how many positions a token sees, its own among them; ``None`` is all."""
        config = self.config.get_text_config()
        window: int | None = getattr(config, "sliding_window", None)
        kinds = getattr(config, "layer_types", None)
        if kinds is None:
            return (window,) * int(config.num_hidden_layers)
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def find_model(name: str | None = None, progress: Progress | None = None) -> ModelFiles:
    """Find a model, see ``resolve_model``; refuse it where its config tells that it cannot run.

    What has to be fetched or converted is. Raises ``ModelError``.
    """
    progress = progress or RichProgress()
    folder = resolve_model(name, progress)
    config: PretrainedConfig | PlainConfig | None = read_plain_config(folder)
    if config is None:
        config = read_config(folder)
        _refuse_by_config(config, folder)
    return ModelFiles(
        name=DEFAULT_MODEL if name is None or name == "default" else name,
        folder=folder,
        config=config,
        checkpoint=read_checkpoint(folder),
        context_window=_context_window(config, folder),
    )


def read_config(folder: Path) -> PretrainedConfig:
    """The config of a folder, as transformers reads it."""
    from transformers import AutoConfig

    with reading("config", folder):
        config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        return config


def _context_window(config: PretrainedConfig | PlainConfig, folder: Path) -> int:
    window = getattr(config.get_text_config(), "max_position_embeddings", None)
    if window is None:
        raise ModelError(
            f"the config of {folder} does not say how long a text may be",
            hint="set max_position_embeddings in its config.json",
        )
    return int(window)


def longest_text(config: PretrainedConfig | PlainConfig) -> int | None:
    """Tokens that a text may have for its rotary positions; ``None`` is no limit.

    Of two ways to stretch a model's positions, ``dynamic`` and ``longrope``, transformers takes the
    frequencies from the longest text of a call and turns all tokens of all texts by them, while
    keys in the cache keep those of an earlier call. Up to the length that a model was trained for
    both are what they would be for the text alone; so texts end there. All other ways depend on
    nothing but a token's position.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    # One set of parameters, or one for each type of layer.
    sets = [one for one in (rope, *rope.values()) if isinstance(one, dict)]
    limits = []
    for one in sets:
        if one.get("rope_type") == "longrope":
            limits.append(int(one["original_max_position_embeddings"]))
        elif one.get("rope_type") == "dynamic":
            limits.append(int(config.max_position_embeddings))
    return min(limits, default=None)


def _refuse_by_config(config: PretrainedConfig, folder: Path) -> None:
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
