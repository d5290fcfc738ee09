"""Loads a model with its tokenizer and vocabulary.

A model that our own forward pass computes is read straight from its files, another is loaded as a
module of transformers. Transformers' modules take two seconds to import, so they are imported where
they are needed, and not at the top::

    ModelFiles ─┬─ load_texts ──▶ ModelTexts          tokenizer, vocabulary
                ├─ load_decoder ▶ CpuDecoder          where ``why_not_read`` has no reason
                └─ load_model ──▶ LoadedModel         texts and module of transformers
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from guided.errors import ModelError
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.vocabulary import Vocabulary
from guided.model.cpu import (
    CpuDecoder,
    WeightFormat,
    read_decoder,
    read_stored_decoder,
    why_not_by_files,
)
from guided.model.cpu.instructions import InstructionSet, has
from guided.model.device import CPU
from guided.model.loading_class import loading_class, make_pruned_class
from guided.model.model_files import ModelFiles, find_model, read_config
from guided.model.plain_config import PlainConfig, read_plain_config
from guided.model.progress import Progress, RichProgress
from guided.model.resolve import resolve_texts
from guided.model.transformers_calls import quiet_transformers, reading

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

__all__ = [
    "LoadedModel",
    "ModelTexts",
    "as_loaded",
    "load_decoder",
    "load_model",
    "load_module",
    "load_stored_decoder",
    "load_texts",
    "load_tokenizer",
    "native_dtype",
    "why_not_read",
]

_FIRST_WITH_BF16 = (8, 0)
"""The least compute capability of a CUDA device; older ones emulate bf16, and torch counts that."""
_GENERATION_CONFIG = "generation_config.json"
_PLAIN_TOKENIZER = "TokenizersBackend"


@dataclass(frozen=True, slots=True, eq=False)
class ModelTexts:
    """What is needed to prompt a model and to read its answers."""

    name: str
    """See ``ModelFiles``."""
    tokenizer: PreTrainedTokenizerBase
    vocabulary: Vocabulary
    context_window: int
    """See ``ModelFiles``."""

    @property
    def has_chat_template(self) -> bool:
        """Whether the model accepts messages; without a template it takes only plain prompts."""
        return self.tokenizer.chat_template is not None


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel(ModelTexts):
    """A model of transformers, ready to answer."""

    module: PreTrainedModel
    """In evaluation mode."""


def load_model(
    model: str | ModelFiles | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device = CPU,
    progress: Progress | None = None,
) -> LoadedModel:
    """Load a model that was found, or find it first; ``None`` is the default model.

    ``dtype`` is that of the weights (``None``: the fastest that the device computes with) and
    ``device`` where they go, straight from the files.
    """
    progress = progress or RichProgress()
    files = model if isinstance(model, ModelFiles) else find_model(model, progress)
    tokenizer = _tokenizer(files)
    is_plain = isinstance(files.config, PlainConfig)
    config = read_config(files.folder) if is_plain else files.config
    module = load_module(files, config, dtype or native_dtype(device), device, progress)
    return as_loaded(files, module, tokenizer)


def as_loaded(
    files: ModelFiles, module: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None
) -> LoadedModel:
    """Add the texts of a model to a module that has been loaded."""
    tokenizer = tokenizer or _tokenizer(files)
    vocabulary = vocabulary_from_tokenizer(
        tokenizer,
        end_ids=_end_ids(
            getattr(config, "eos_token_id", None)
            for config in (module.generation_config, module.config.get_text_config())
            if config is not None
        ),
        logits_width=_logits_width(module),
    )
    return LoadedModel(files.name, tokenizer, vocabulary, files.context_window, module)


def why_not_read(files: ModelFiles) -> str | None:
    """Return why transformers has to load a model on the CPU, or ``None``."""
    return why_not_by_files(files.config, files.checkpoint.shapes, files.checkpoint.types)


def load_texts(files: ModelFiles, progress: Progress) -> ModelTexts:
    """Load tokenizer and vocabulary of a model whose weights ``load_decoder`` reads."""
    ends = [files.config.eos_token_id]
    generation = files.folder / _GENERATION_CONFIG
    if generation.is_file():
        with reading("generation config", files.folder):
            ends.append(json.loads(generation.read_text("utf-8")).get("eos_token_id"))
    with progress.step(f"loading {files.name}"):
        tokenizer = _tokenizer(files)
        vocabulary = vocabulary_from_tokenizer(
            tokenizer, end_ids=_end_ids(ends), logits_width=files.config.vocab_size
        )
        return ModelTexts(files.name, tokenizer, vocabulary, files.context_window)


def load_decoder(
    files: ModelFiles,
    weight_format: WeightFormat,
    *,
    dtype: torch.dtype,
    report: Callable[[int], None] = lambda _nbytes: None,
) -> CpuDecoder:
    """Read and pack the weights of a model for our own forward pass.

    ``dtype`` is that of the embedding and of the cache, see ``read_decoder``; ``report`` receives
    the number of bytes read so far. The caller has made sure that ``why_not_read`` has no reason.
    """
    places = files.checkpoint.files
    with reading("weights", files.folder):
        return read_decoder(files.config, places, weight_format, dtype=dtype, report=report)


def load_stored_decoder(
    files: ModelFiles, *, report: Callable[[int], None] = lambda _nbytes: None
) -> CpuDecoder:
    """Do as ``load_decoder``, with the weights of a GGUF file as stored."""
    assert files.stored is not None, "not found as it is stored"
    with reading("weights", files.stored.path):
        return read_stored_decoder(
            files.config, files.stored.path, files.stored.tensors, report=report
        )


def load_tokenizer(model: str | None = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer alone; ``None`` is that of the default model."""
    folder = resolve_texts(model, RichProgress())
    return _read_tokenizer(folder, is_plain=read_plain_config(folder) is not None)


def _tokenizer(files: ModelFiles) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model that was found."""
    return _read_tokenizer(files.folder, is_plain=isinstance(files.config, PlainConfig))


def _read_tokenizer(folder: Path, *, is_plain: bool) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a folder; ``is_plain``: whether its config is a ``PlainConfig``."""
    with reading("tokenizer", folder):
        found: PreTrainedTokenizerBase
        if is_plain and _is_plain_tokenizer(folder):
            # The class that the other would choose, after importing all that reads a config.
            from transformers import TokenizersBackend

            found = TokenizersBackend.from_pretrained(folder)
        else:
            from transformers import AutoTokenizer

            found = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        return found


def _is_plain_tokenizer(folder: Path) -> bool:
    """Whether a folder's own file is all there is of its tokenizer."""
    file = folder / "tokenizer_config.json"
    told = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    has_file = (folder / "tokenizer.json").is_file()
    return has_file and told.get("tokenizer_class") == _PLAIN_TOKENIZER and "auto_map" not in told


def native_dtype(device: torch.device) -> torch.dtype:
    """Return the fastest type for a module of transformers: bf16 if the device multiplies it.

    Otherwise the CPU is faster with fp32, and a CUDA device with fp16.
    """
    if device.type == "cuda":
        has_bf16 = torch.cuda.get_device_capability(device) >= _FIRST_WITH_BF16
        return torch.bfloat16 if has_bf16 else torch.float16
    return torch.bfloat16 if has(InstructionSet.AVX512_BF16) else torch.float32


def load_module(
    files: ModelFiles,
    config: PretrainedConfig | Any,
    dtype: torch.dtype,
    device: torch.device,
    progress: Progress,
    *,
    ranks: int = 1,
    prune: Callable[[PreTrainedModel], None] | None = None,
) -> PreTrainedModel:
    """Load only the module of transformers; with several ranks, which load at once, a share of it.

    ``config`` is that of transformers, with the plan by which it is split. Ranks use the devices
    with their numbers. ``prune`` takes parts out of the module before weights are read.
    """
    source, size = files.folder, files.checkpoint.nbytes
    found_class = loading_class(config, source)
    if prune is not None:
        found_class = make_pruned_class(found_class, config, prune)
    # Typed with what it returns when a report is requested; the model is in evaluation mode.
    from_pretrained: Callable[..., tuple[PreTrainedModel, dict[str, Collection[str]]]] = cast(
        "Any", found_class.from_pretrained
    )
    with (
        progress.step(f"loading {files.name}", total_bytes=size) as report,
        quiet_transformers(lambda share: report(int(share * size))),
        reading("weights", source),
    ):
        module, found = from_pretrained(
            source,
            config=config,
            dtype=dtype,
            **_placing(device, ranks),
            trust_remote_code=False,
            output_loading_info=True,
        )
    # Transformers would make them up and only warn.
    missing = sorted(found["missing_keys"])
    if missing:
        raise ModelError(
            f"the weights of {source} are incomplete: {missing[0]}"
            + (f" and {len(missing) - 1} more are missing" if missing[1:] else " is missing"),
            hint="fetch or save the model again",
        )
    return module


def _placing(device: torch.device, ranks: int) -> dict[str, Any]:
    if ranks == 1:
        return {"device_map": device}
    from transformers import DistributedConfig

    return {"distributed_config": DistributedConfig(tp_size=ranks)}


def _end_ids(told: Iterable[Any]) -> frozenset[int]:
    """Return all end tokens of configs, each of which says nothing, a token, or several."""
    found: set[int] = set()
    for ends in told:
        found.update([] if ends is None else [ends] if isinstance(ends, int) else ends)
    return frozenset(found)


def _logits_width(module: PreTrainedModel) -> int:
    output_embeddings: Callable[[], object] = module.get_output_embeddings
    head = output_embeddings()
    width = getattr(head, "out_features", None)
    return int(module.config.get_text_config().vocab_size if width is None else width)
