"""A model that was found, and of which nothing is loaded yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from transformers import AutoConfig, PretrainedConfig

from guided.errors import ModelError
from guided.kv.layer_shape import LayerShape
from guided.model.checkpoint import Checkpoint, read_checkpoint
from guided.model.default_model import DEFAULT_MODEL
from guided.model.name import resolve_model
from guided.model.progress import Progress, RichProgress
from guided.model.reading import reading
from guided.model.unsupported import refuse_by_config

__all__ = ["ModelFiles", "find_model"]


@dataclass(frozen=True, slots=True, eq=False)
class ModelFiles:
    """A folder of transformers, and what its small files and the headers of its weights say."""

    name: str
    """As the caller called it, or the name of the default model."""
    folder: Path
    config: PretrainedConfig
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
    with reading("config", folder):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    refuse_by_config(config, folder)
    return ModelFiles(
        name=DEFAULT_MODEL if name is None or name == "default" else name,
        folder=folder,
        config=config,
        checkpoint=read_checkpoint(folder),
        context_window=_context_window(config, folder),
    )


def _context_window(config: PretrainedConfig, folder: Path) -> int:
    window = getattr(config.get_text_config(), "max_position_embeddings", None)
    if window is None:
        raise ModelError(
            f"the config of {folder} does not say how long a text may be",
            hint="set max_position_embeddings in its config.json",
        )
    return int(window)
