"""Loading a model of transformers with its tokenizer and vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from guided.errors import ModelError
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.vocabulary import Vocabulary
from guided.model.device import CPU
from guided.model.model_files import ModelFiles, find_model
from guided.model.progress import Progress, RichProgress
from guided.model.quiet import quiet_transformers
from guided.model.reading import reading

__all__ = ["LoadedModel", "load_model", "load_tokenizer", "native_dtype"]

_from_pretrained: Callable[..., tuple[PreTrainedModel, dict[str, Collection[str]]]] = cast(
    "Any", AutoModelForCausalLM.from_pretrained
)
"""With what it returns when it is asked for a report as well; the model is in evaluation mode."""
_FIRST_WITH_BF16 = (8, 0)
"""Compute capability of a CUDA device; older ones emulate it, which torch counts as well."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model, ready to answer, with what is needed to speak to it."""

    name: str
    """See ``ModelFiles``."""
    module: PreTrainedModel
    """In evaluation mode."""
    tokenizer: PreTrainedTokenizerBase
    vocabulary: Vocabulary
    context_window: int
    """See ``ModelFiles``."""

    @property
    def has_chat_template(self) -> bool:
        """Whether the model knows messages; without one it takes plain prompts only."""
        return self.tokenizer.chat_template is not None


def load_model(
    model: str | ModelFiles | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device = CPU,
    attention: str | None = None,
    progress: Progress | None = None,
) -> LoadedModel:
    """Load a model that was found, or find it first; ``None`` is the default model.

    ``dtype`` is that of the weights (``None``: the fastest that the device computes with),
    ``device`` where they go, straight from the files, ``attention`` the name of an attention
    registered with transformers (``None``: its own choice).
    """
    progress = progress or RichProgress()
    files = model if isinstance(model, ModelFiles) else find_model(model, progress)
    tokenizer = _tokenizer(files)
    module = _load_weights(files, dtype or native_dtype(device), device, attention, progress)
    vocabulary = vocabulary_from_tokenizer(
        tokenizer, end_ids=_end_ids(module), logits_width=_logits_width(module)
    )
    return LoadedModel(
        name=files.name,
        module=module,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        context_window=files.context_window,
    )


def load_tokenizer(model: str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer alone; ``None`` is that of the default model."""
    return _tokenizer(find_model(model))


def _tokenizer(files: ModelFiles) -> PreTrainedTokenizerBase:
    with reading("tokenizer", files.folder):
        return AutoTokenizer.from_pretrained(files.folder, trust_remote_code=False)


def native_dtype(device: torch.device) -> torch.dtype:
    """The fastest for a model: bf16 where the device multiplies it itself.

    Elsewhere the CPU is faster with fp32, and a CUDA device with fp16.
    """
    if device.type == "cuda":
        has_bf16 = torch.cuda.get_device_capability(device) >= _FIRST_WITH_BF16
        return torch.bfloat16 if has_bf16 else torch.float16
    capabilities = torch.cpu.get_capabilities()
    native = any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return torch.bfloat16 if native else torch.float32


def _load_weights(
    files: ModelFiles,
    dtype: torch.dtype,
    device: torch.device,
    attention: str | None,
    progress: Progress,
) -> PreTrainedModel:
    source, size = files.folder, files.checkpoint.nbytes
    with (
        progress.step(f"loading {files.name}", total_bytes=size) as report,
        quiet_transformers(lambda share: report(int(share * size))),
        reading("weights", source),
    ):
        module, found = _from_pretrained(
            source,
            config=files.config,
            dtype=dtype,
            device_map=device,
            attn_implementation=attention,
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


def _end_ids(module: PreTrainedModel) -> frozenset[int]:
    found: set[int] = set()
    for config in (module.generation_config, module.config.get_text_config()):
        ends = None if config is None else config.eos_token_id
        found.update([] if ends is None else [ends] if isinstance(ends, int) else ends)
    return frozenset(found)


def _logits_width(module: PreTrainedModel) -> int:
    output_embeddings: Callable[[], object] = module.get_output_embeddings
    head = output_embeddings()
    width = getattr(head, "out_features", None)
    return int(module.config.get_text_config().vocab_size if width is None else width)
