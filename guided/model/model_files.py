"""Finds a model without loading any of it, or refuses it by its config."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from guided.errors import ModelError
from guided.kv.layer_groups import LayerShape
from guided.model.checkpoint import Checkpoint, read_checkpoint
from guided.model.config_refusals import refuse_by_config, require_quantiser
from guided.model.cpu import StoredTensor, why_not_by_files
from guided.model.default_model import DEFAULT_MODEL
from guided.model.gguf_texts import read_tensors
from guided.model.layer_configs import (
    is_recurrent,
    keep_keys,
    layer_shapes,
    layer_windows,
    rope_settings,
)
from guided.model.plain_config import PlainConfig, read_plain_config
from guided.model.progress import Progress, RichProgress
from guided.model.resolve import resolve_model, resolve_stored
from guided.model.transformers_calls import reading

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = [
    "ModelFiles",
    "StoredFile",
    "find_model",
    "find_stored",
    "longest_text",
    "read_config",
]


_UNBOUNDED_TEXT = 1 << 20
"""Tokens of a text for models that keep only a state of one size of it."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredFile:
    """A GGUF file, and where in it each tensor is, by the names of transformers."""

    path: Path
    tensors: Mapping[str, StoredTensor]


@dataclass(frozen=True, slots=True, eq=False)
class ModelFiles:
    """A folder of transformers, with the contents of its small files and weight headers."""

    name: str
    """The name the caller used, or that of the default model."""
    folder: Path
    config: PretrainedConfig | PlainConfig
    checkpoint: Checkpoint
    context_window: int
    """The most tokens of prompt and answer together."""
    stored: StoredFile | None = None
    """The GGUF file, if its weights are used as stored."""

    @property
    def layers(self) -> tuple[LayerShape, ...]:
        """What each layer keeps of a token."""
        return layer_shapes(self.config)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """How many positions a token sees, including its own, by layer; ``None`` is all."""
        return layer_windows(self.config)


def find_model(name: str | None = None, progress: Progress | None = None) -> ModelFiles:
    """Find a model, see ``resolve_model``; refuse it if its config says that it cannot run.

    Fetches and converts what is missing. Raises ``ModelError``.
    """
    progress = progress or RichProgress()
    return _files(name, resolve_model(name, progress))


def find_stored(
    name: str | None = None, progress: Progress | None = None
) -> ModelFiles | str | None:
    """Find a GGUF file whose weights are used as stored, or return why they are not.

    ``None`` if ``name`` is not a GGUF file. Only its config and tokenizer are unpacked. Raises
    ``ModelError`` as ``find_model``.
    """
    progress = progress or RichProgress()
    found = resolve_stored(name, progress)
    if found is None or isinstance(found, str):
        return found
    path, folder = found
    tensors = read_tensors(path, folder)
    files = _files(name, folder, StoredFile(path, tensors))
    reason = why_not_by_files(files.config, files.checkpoint.shapes, files.checkpoint.types)
    return files if reason is None else reason


def _files(name: str | None, folder: Path, stored: StoredFile | None = None) -> ModelFiles:
    """Collect what is known of a model before its weights are read: config, tensors, longest text.

    Raises ModelError for a model that its config shows to be unsupported.
    """
    config: PretrainedConfig | PlainConfig | None = read_plain_config(folder)
    if config is None:
        config = read_config(folder)
        refuse_by_config(config, folder)
        require_quantiser(config, folder)
    return ModelFiles(
        name=DEFAULT_MODEL if name is None or name == "default" else name,
        folder=folder,
        config=config,
        checkpoint=read_checkpoint(folder) if stored is None else _checkpoint_of(stored),
        context_window=_context_window(config, folder),
        stored=stored,
    )


def _checkpoint_of(stored: StoredFile) -> Checkpoint:
    """Describe the tensors of a GGUF file as those of any checkpoint."""
    types: Counter[str] = Counter()
    for tensor in stored.tensors.values():
        types[tensor.kind] += prod(tensor.shape)
    return Checkpoint(
        types=types,
        shapes={name: tensor.shape for name, tensor in stored.tensors.items()},
        files=dict.fromkeys(stored.tensors, stored.path),
        nbytes=sum(tensor.nbytes for tensor in stored.tensors.values()),
    )


def read_config(folder: Path) -> PretrainedConfig:
    """Read the config of a folder, as transformers does."""
    from transformers import AutoConfig

    with reading("config", folder):
        config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        return config


def _context_window(config: PretrainedConfig | PlainConfig, folder: Path) -> int:
    """Return the most tokens of a text; ModelError if the config names no bound."""
    window = getattr(config.get_text_config(), "max_position_embeddings", None)
    if window is None and is_recurrent(config) and not any(keep_keys(config)):
        return _UNBOUNDED_TEXT
    # A negative number stands for no bound, by which no cache can be planned.
    if window is None or window < 1:
        raise ModelError(
            f"the config of {folder} does not say how long a text may be",
            hint="set max_position_embeddings in its config.json",
        )
    return int(window)


def longest_text(config: PretrainedConfig | PlainConfig) -> int | None:
    """Return the most tokens of a text by its rotary positions; ``None`` is no limit.

    For two ways of stretching positions, ``dynamic`` and ``longrope``, transformers takes the
    frequencies from the longest text of a call and rotates all tokens of all texts by them, while
    keys in the cache keep those of an earlier call. Up to the length that a model was trained for
    both are as they would be for the text alone; so texts end there. All other ways depend only on
    a token's position.
    """
    limits = []
    for one in rope_settings(config):
        if one.get("rope_type") == "longrope":
            limits.append(int(one["original_max_position_embeddings"]))
        elif one.get("rope_type") == "dynamic":
            limits.append(int(config.max_position_embeddings))
    return min(limits, default=None)
