"""Whether each causal type of transformers runs here, tried as a user would run it.

A tiny random model of the type is saved to a folder and loaded by ``load_engine``. It has to answer
a mixed batch, with drafts and forced runs, as its own ``generate()`` does, or to be refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from guided.constraint import ConstraintCompiler
from guided.decoding import CostCurve
from guided.engine import Engine, load_engine
from guided.errors import ModelError
from guided.masks.huggingface import vocabulary_from_tokenizer
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.model.loading_class import loading_class
from guided.model.progress import SilentProgress
from guided.spec import Forcing, GenerationRequest, JsonSchema, TokenId
from tests.engine.tiny_models import answers
from tests.kit.built_tokenizers import BUILT, loaded
from tests.kit.causal_types import END, PADDING, VOCABULARY, tiny_config

__all__ = ["Verdict", "verdict_on"]

_PROMPTS = ("hello name", "x", "the names in the thing, a b a b a b, it's in the thing")
_COUNT = 14
_SCHEMA = JsonSchema(
    '{"type": "object", "properties": {"name": {"enum": ["one", "thing", "two"]},'
    ' "a b": {"enum": [1, 2024]}}, "required": ["name", "a b"], "additionalProperties": false}'
)
_FLAT = CostCurve(((1, 1.0), (512, 1.001)))
"""The cost of a call hardly grows with its tokens, so that drafts always pay."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for a type."""

    model_type: str
    is_equal: bool
    reason: str
    """Why it was refused; empty if it was not."""


def verdict_on(
    model_type: str, folder: Path, draft: Path, config: PretrainedConfig | None = None
) -> Verdict:
    """Try a type in an empty folder, with another model that drafts for it.

    ``config`` replaces the usual one.

    Exceptions other than a ``ModelError`` are passed on, and wrong answers raise as well.
    """
    _save(model_type, config or tiny_config(model_type), folder)
    try:
        engine = _load(folder, draft)
    except ModelError as error:
        return Verdict(model_type, False, str(error).replace(str(folder), "the folder"))
    requests = {prompt: GenerationRequest(prompt, max_tokens=_COUNT) for prompt in _PROMPTS}
    requests["constrained"] = GenerationRequest(
        _PROMPTS[0], constraint=_SCHEMA, max_tokens=60, forcing=Forcing.CANONICAL
    )
    expected = _expected(folder)
    # The second round drafts from the answers of the first.
    for _ in range(2):
        found = {name: result.tokens for name, result in answers(engine, requests).items()}
        assert found == expected, f"{model_type} answers otherwise than generate()"
    usage = engine.stats().usage
    assert usage.drafted_tokens > 0, f"nothing was drafted for {model_type}"
    assert usage.forced_tokens > 0, f"nothing was forced for {model_type}"
    return Verdict(model_type, True, "")


@cache
def _tokenizer() -> PreTrainedTokenizerBase:
    return loaded(BUILT["built like GPT-2"]())


def _expected(folder: Path) -> dict[str, tuple[TokenId, ...]]:
    """The answer of ``generate()`` to each request."""
    # Some types have a tokenizer of their own, which splits texts differently from the saved one.
    tokenizer = AutoTokenizer.from_pretrained(folder)
    module = _load_plainly(folder)
    expected = {prompt: _generated(module, tokenizer, prompt, _COUNT) for prompt in _PROMPTS}
    vocabulary = vocabulary_from_tokenizer(tokenizer, end_ids=frozenset({END}))
    matcher = ConstraintCompiler(vocabulary).start(_SCHEMA)
    expected["constrained"] = _generated(module, tokenizer, _PROMPTS[0], 60, matcher)
    return expected


def _save(model_type: str, config: PretrainedConfig, folder: Path) -> None:
    """Save a tiny model with random weights; if it cannot be made, only its config."""
    _tokenizer().save_pretrained(folder)
    torch.manual_seed(0)
    try:
        loading_class(config, folder).from_config(config).save_pretrained(folder)
    # If something is missing to make the model, the loader has to say so in its own error.
    except Exception:
        config.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type]]
        config.save_pretrained(folder)
        save_file({"nothing": torch.zeros(1)}, folder / "model.safetensors", {"format": "pt"})


def _load(folder: Path, draft: Path) -> Engine:
    # Times of calls that are too short to be measured would decide what is drafted.
    with patch("guided.engine.load.load_or_measure_costs", lambda *_: _FLAT):
        return load_engine(
            str(folder),
            dtype="float32",
            device="cpu",
            threads=1,
            cache_tokens=1024,
            draft_models=[str(draft)],
            draft_widths=(2, 1),
            progress=SilentProgress(),
        )


def _load_plainly(folder: Path) -> Any:
    saved = AutoConfig.from_pretrained(folder)  # that of a part, if the model made is a part
    module = loading_class(saved, folder).from_pretrained(folder, dtype=torch.float32)
    return module.train(mode=False)


def _generated(
    module: Any,
    tokenizer: PreTrainedTokenizerBase,
    prompt: str,
    count: int,
    matcher: Matcher | None = None,
) -> tuple[TokenId, ...]:
    """Greedy tokens of a model's own ``generate()``, up to an end."""
    ids = torch.tensor([tokenizer(prompt).input_ids])
    ends = {END, tokenizer.eos_token_id} - {None}
    limit: dict[str, Any] = {}
    if matcher is not None:
        limit["prefix_allowed_tokens_fn"] = partial(_allowed, matcher, ids.shape[1])
    output = module.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=sorted(ends),
        pad_token_id=PADDING,
        suppress_tokens=list(range(len(tokenizer), VOCABULARY)),
        **limit,
    )
    tokens = output[0, ids.shape[1] :].tolist()
    return tuple(TokenId(token) for token in tokens if token not in ends)


def _allowed(matcher: Matcher, start: int, _row: int, ids: torch.Tensor) -> list[int]:
    """The tokens that may come next: one of a forced run, or those of the mask."""
    forced = matcher.forced_run(Forcing.CANONICAL)
    for token in ids[start:].tolist():
        matcher = matcher.advance(TokenId(token))
        forced = forced[1:] or matcher.forced_run(Forcing.CANONICAL)
    legal: list[int] = tokens_of(matcher.mask()).tolist()
    return [*forced[:1]] or legal
