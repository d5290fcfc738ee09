"""The default model in fp32 gives, token for token, the answers of ``generate()``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
import torch

from guided.constraint import ConstraintCompiler
from guided.drafters import LookupDrafter
from guided.engine import Engine
from guided.model.cpu import WeightFormat
from guided.model.load import LoadedModel, load_model
from guided.model.progress import SilentProgress
from guided.model.prompt import render_prompt
from guided.model.runner import ModelRunner
from guided.spec import GenerationRequest, GenerationResult, TokenId
from tests.engine.drafters import Watch
from tests.engine.tiny_models import answers, results
from tests.kit.effort import crossed
from tests.kit.tokenizers import real_tokenizer

TOKENS = 16
_STORY = "Once upon a time, in a small village by the sea, there lived an old"
PROMPTS = {
    "short": "The capital of France is",
    "counted": "1, 2, 3, 4, 5, 6, 1, 2, 3, 4,",
    "names": '{"name": "Ada Lovelace"}\n{"name": "Ada',
    "story": _STORY + " fisherman named",
}
SAME_BEGINNING = {"same beginning": _STORY + " woman who"}
CASES: dict[str, dict[str, Any]] = {
    "together": {},
    "chunks of 16": {"step_tokens": 16},
    "chunks of 5": {"step_tokens": 5, "max_batch": 5},
    "short cache": {"step_tokens": 16, "cache_tokens": 56, "reuse_prefixes": False},
}
Answers = dict[str, tuple[TokenId, ...]]
Open = Callable[..., tuple[Engine, Watch]]


def _load() -> LoadedModel:
    return load_model("default", dtype=torch.float32, progress=SilentProgress())


@pytest.fixture(scope="module")
def whole() -> LoadedModel:
    """The model as loaded by transformers."""
    return _load()


@pytest.fixture(scope="module")
def expected(whole: LoadedModel) -> Answers:
    """The answer of ``generate()`` to each prompt alone, up to an end.

    The likeliest token has to lead clearly, or another order of additions could tip the choice.
    """
    module: Any = whole.module
    said = {}
    for name, prompt in (PROMPTS | SAME_BEGINNING).items():
        ids = torch.tensor([_spell(prompt)])
        output = module.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=TOKENS,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        best = torch.cat(output.logits).topk(2).values
        assert float((best[:, 0] - best[:, 1]).min()) > 1e-3, f"{name} hangs in the balance"
        answer = output.sequences[0, ids.shape[1] :].tolist()
        said[name] = tuple(token for token in answer if token not in whole.vocabulary.end_ids)
    return said


def _open(loaded: LoadedModel, weights: WeightFormat | None) -> Open:
    """Engines around one model, one at a time; without drafts by default."""
    runner = ModelRunner(loaded.module, vocabulary_size=len(loaded.vocabulary), weights=weights)
    start = ConstraintCompiler(loaded.vocabulary).start

    def open_engine(*, drafts: bool, **options: Any) -> tuple[Engine, Watch]:
        watch = Watch(LookupDrafter(loaded.vocabulary) if drafts else None)
        engine = Engine(
            model_name=loaded.name,
            runner=runner,
            vocabulary=loaded.vocabulary,
            context_window=loaded.context_window,
            render=partial(render_prompt, loaded),
            start=start,
            drafters=(watch,),
            widest_draft=8,
            **options,
        )
        return engine, watch

    return open_engine


@pytest.fixture(scope="module")
def open_engine() -> Open:
    """Engines with our own forward pass, as served on a CPU."""
    return _open(_load(), WeightFormat.FP32)


def _spell(prompt: str) -> tuple[TokenId, ...]:
    return tuple(map(TokenId, real_tokenizer("smollm2").encode(prompt)))


def _asked(names: Iterable[str]) -> dict[str, GenerationRequest]:
    prompts = PROMPTS | SAME_BEGINNING
    return {name: GenerationRequest(prompts[name], max_tokens=TOKENS) for name in names}


def _said(results: dict[str, GenerationResult]) -> Answers:
    return {name: result.tokens for name, result in results.items()}


def _those(expected: Answers, names: Iterable[str]) -> Answers:
    return {name: expected[name] for name in names}


def _accepted(results: dict[str, GenerationResult]) -> int:
    return sum(result.usage.accepted_tokens for result in results.values())


@pytest.mark.parametrize("drafts", [False, True], ids=["plain", "drafts"])
def test_alone(open_engine: Open, expected: Answers, drafts: bool) -> None:
    engine, _ = open_engine(drafts=drafts)
    for name in ("counted", "short"):
        assert _said(answers(engine, _asked([name]))) == _those(expected, [name])


@pytest.mark.parametrize(("case", "drafts"), crossed(CASES, [False, True]))
def test_in_a_batch(open_engine: Open, expected: Answers, case: str, drafts: bool) -> None:
    engine, _ = open_engine(drafts=drafts, **CASES[case])
    found = answers(engine, _asked(PROMPTS))
    assert _said(found) == _those(expected, PROMPTS)
    assert (engine.stats().preempted > 0) is (case == "short cache")
    assert (_accepted(found) > 0) is drafts


def test_in_a_batch_with_the_forward_pass_of_transformers(
    whole: LoadedModel, expected: Answers
) -> None:
    engine, _ = _open(whole, None)(drafts=True, **CASES["short cache"])
    found = answers(engine, _asked(PROMPTS))
    assert _said(found) == _those(expected, PROMPTS)
    assert engine.stats().preempted > 0
    assert _accepted(found) > 0


def test_behind_a_beginning_that_is_known(open_engine: Open, expected: Answers) -> None:
    engine, _ = open_engine(drafts=True)
    reused = {}
    for names in (["story"], ["same beginning", "short", "story"]):
        found = answers(engine, _asked(names))
        assert _said(found) == _those(expected, names)
        reused = {name: result.usage.reused_tokens for name, result in found.items()}
    assert reused == {"same beginning": 16, "short": 0, "story": 16}


@pytest.mark.parametrize("after", [1, 2])
def test_beside_one_that_goes_away_when_its_tree_was_verified(
    open_engine: Open, expected: Answers, after: int
) -> None:
    engine, watch = open_engine(drafts=True)
    prompts = PROMPTS | {"gone": "7, 8, 9, 7, 8, 9, 7, 8,"}
    for name, request in _asked(PROMPTS).items():
        engine.submit(name, request)
    engine.submit("gone", GenerationRequest(prompt=prompts["gone"], max_tokens=60))
    for _ in range(after):
        assert engine.step() == []
        trees = watch.take({name: _spell(prompt) for name, prompt in prompts.items()})
    assert trees.keys() >= {"gone", "names", "story"}
    engine.cancel("gone")
    engine.check()
    assert _said(results(engine)) == _those(expected, PROMPTS)
    assert engine.stats().cache.held == 0
