"""Tiny random models of several architectures, and an engine around them."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from guided.engine.engine import Engine
from guided.engine.results import Finished
from guided.model.attention import AttentionKernel
from guided.model.cpu import WeightFormat
from guided.model.runner import ModelRunner
from guided.spec import Constraint, EnginePrompt, GenerationResult, JsonSchema, TokenId
from tests.engine.architectures import CONFIGS, OTHER_CONFIGS
from tests.engine.finite_language import (
    TOKEN_BYTES,
    AnythingMatcher,
    WordMatcher,
    make_vocabulary,
    spell_bytes,
)

_TRIED = "tried by the tests"


def make_model(
    architecture: str = "llama", *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> PreTrainedModel:
    torch.manual_seed(seed)
    # The engine changes the attention in a model's config, so every model has its own.
    config = copy.deepcopy((CONFIGS | OTHER_CONFIGS)[architecture])
    # Torch's kernel for many experts at once does not compute in fp64.
    config._experts_implementation = "eager"
    model = from_config(config)
    torch.nn.Module.to(model, dtype=dtype)
    return model


def from_config(config: PretrainedConfig) -> PreTrainedModel:
    """A model with random weights, in evaluation mode."""
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.train(mode=False)
    return model


def words(*texts: str, is_careless: bool = False) -> JsonSchema:
    """A constraint that allows exactly these texts (the tests' engine reads it as such)."""
    return JsonSchema(json.dumps({"careless": texts} if is_careless else texts))


def start(constraint: Constraint) -> Any:
    if constraint is None:
        return AnythingMatcher()
    assert isinstance(constraint, JsonSchema)
    texts = json.loads(constraint.text)
    if isinstance(texts, dict):
        return WordMatcher.of(texts["careless"], is_careless=True)
    return WordMatcher.of(texts)


def render(prompt: EnginePrompt, shown: str | None, *_: object) -> tuple[TokenId, ...]:
    assert isinstance(prompt, str)
    return spell_bytes((prompt + (shown or "")).encode())


@cache
def _usual_model() -> PreTrainedModel:
    return make_model()


def tried_runner(model: PreTrainedModel) -> ModelRunner:
    """A new runner for a model; the model is tried once, since a trial takes as long as answers.

    A model with recurrent layers is tried for each runner, because their mixers get parts of it.
    """
    runners: dict[str, ModelRunner] = vars(model)
    tried = runners.get(_TRIED) or ModelRunner(model, vocabulary_size=len(TOKEN_BYTES))
    if not tried.shape.mixers:
        runners[_TRIED] = tried
    runner = copy.copy(tried)
    vars(runner)["_forward"] = copy.copy(vars(runner)["_forward"])
    return runner


def make_engine(model: PreTrainedModel | None = None, **options: Any) -> Engine:
    """An engine; with ``weights``, a format, its forward pass is our own, else transformers'.

    ``kernel`` then says what computes its attention; ``quantise_cache`` keeps the cache as int8.
    A given ``runner`` is used as it is.
    """
    vocabulary = make_vocabulary()
    weights: WeightFormat | None = options.pop("weights", None)
    kernel: AttentionKernel | None = options.pop("kernel", None)
    quantise_cache: bool = options.pop("quantise_cache", False)
    runner: ModelRunner | None = options.pop("runner", None)
    is_usual = weights is None and kernel is None and not quantise_cache
    if runner is None and is_usual:
        runner = tried_runner(_usual_model() if model is None else model)
    runner = runner or ModelRunner(
        model or make_model(),
        vocabulary_size=len(TOKEN_BYTES),
        weights=weights,
        kernel=kernel,
        quantise_cache=quantise_cache,
    )
    settings: dict[str, Any] = {
        "context_window": 512,
        "start": start,
        "render": render,
        "block_size": 4,
    }
    return Engine(model_name="tiny", runner=runner, vocabulary=vocabulary, **(settings | options))


def drain(engine: Engine) -> dict[str, Finished]:
    """Step until no request is left, checking the accounts of blocks after every step."""
    ended: dict[str, Finished] = {}
    while engine.has_work:
        for finished in engine.step():
            ended[finished.request_id] = finished
        engine.check()
    return ended


def results(engine: Engine) -> dict[str, GenerationResult]:
    """Step until no request is left; every request has to end with an answer."""
    found = {}
    for request_id, finished in drain(engine).items():
        if not isinstance(finished.outcome, GenerationResult):
            raise finished.outcome
        found[request_id] = finished.outcome
    return found


def answers(engine: Engine, requests: dict[str, Any]) -> dict[str, GenerationResult]:
    """Run requests together; every one of them has to end with an answer."""
    for request_id, request in requests.items():
        engine.submit(request_id, request)
    found = results(engine)
    assert found.keys() == requests.keys()
    return found
