"""Loading a model of transformers with its tokenizer and vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from guided.errors import ModelError
from guided.model.default_model import DEFAULT_MODEL
from guided.model.name import resolve_model
from guided.model.progress import Progress, RichProgress
from guided.model.quiet import quiet_transformers
from guided.model.reading import reading
from guided.tokens.huggingface import vocabulary_from_tokenizer
from guided.tokens.vocabulary import Vocabulary

__all__ = ["LoadedModel", "load_model", "native_dtype"]

_DECODERS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""How the names of classes end that can continue a text."""

_from_pretrained: Callable[..., tuple[PreTrainedModel, dict[str, Collection[str]]]] = cast(
    "Any", AutoModelForCausalLM.from_pretrained
)
"""With what it returns when it is asked for a report as well; the model is in evaluation mode."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model, ready to answer, with what is needed to speak to it."""

    name: str
    """As the caller called it, or the name of the default model."""
    module: PreTrainedModel
    """In evaluation mode."""
    tokenizer: PreTrainedTokenizerBase
    vocabulary: Vocabulary
    context_window: int
    """Tokens that prompt and answer may have together."""

    @property
    def has_chat_template(self) -> bool:
        """Whether the model knows messages; without one it takes plain prompts only."""
        return self.tokenizer.chat_template is not None


def load_model(
    name: str | None = None,
    *,
    dtype: torch.dtype | None = None,
    attention: str | None = None,
    progress: Progress | None = None,
) -> LoadedModel:
    """Load the default model (``None``), that of a folder, or that of an id on the hub.

    ``dtype`` is that of the weights (``None``: the fastest that this machine computes with),
    ``attention`` the name of an attention registered with transformers (``None``: its own choice).
    """
    progress = progress or RichProgress()
    source = resolve_model(name, progress)
    called = DEFAULT_MODEL if name is None or name == "default" else name
    with progress.step(f"loading {called}"), quiet_transformers():
        with reading("config", source):
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        _require_decoder(config, source)
        context_window = _context_window(config, source)
        with reading("tokenizer", source):
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        module = _load_weights(source, config, dtype or native_dtype(), attention)
        vocabulary = vocabulary_from_tokenizer(
            tokenizer, end_ids=_end_ids(module), logits_width=_logits_width(module)
        )
    return LoadedModel(
        name=called,
        module=module,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        context_window=context_window,
    )


def native_dtype() -> torch.dtype:
    """bf16 where the processor multiplies it itself, else fp32, which is then faster."""
    capabilities = torch.cpu.get_capabilities()
    native = any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
    return torch.bfloat16 if native else torch.float32


def _require_decoder(config: PretrainedConfig, source: Path | str) -> None:
    kinds = config.architectures or []
    continues = not kinds or any(kind.endswith(_DECODERS) for kind in kinds)
    if config.is_encoder_decoder or not continues:
        raise ModelError(
            f"{source} is not a decoder but a {', '.join(kinds) or config.model_type}",
            hint="choose a model that continues a text (a causal language model)",
        )


def _load_weights(
    source: Path | str, config: PretrainedConfig, dtype: torch.dtype, attention: str | None
) -> PreTrainedModel:
    with reading("weights", source):
        module, report = _from_pretrained(
            source,
            config=config,
            dtype=dtype,
            attn_implementation=attention,
            trust_remote_code=False,
            output_loading_info=True,
        )
    # Transformers would make them up and only warn.
    missing = sorted(report["missing_keys"])
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


def _context_window(config: PretrainedConfig, source: Path | str) -> int:
    window = getattr(config.get_text_config(), "max_position_embeddings", None)
    if window is None:
        raise ModelError(
            f"the config of {source} does not say how long a text may be",
            hint="set max_position_embeddings in its config.json",
        )
    return int(window)
