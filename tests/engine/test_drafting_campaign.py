"""Greedy answers are the same with every drafter and every pair of them as without.

Random grammars and prompts in mixed batches, in which some requests are cancelled right after one
of their trees was verified. One engine runs all batches, so its caches are full of earlier
requests. The long form tries 1,000 grammars with prompts, each with every set of drafters; the
short one 40, each with some.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations

import pytest
import torch
from transformers import PreTrainedModel

from guided.decoding import Drafter
from guided.drafters import LookupDrafter
from guided.drafters.draft_model import DraftModel
from guided.drafters.heads.eagle import EagleDrafter
from guided.drafters.lookahead import LookaheadDrafter
from guided.drafters.suffix import SuffixDrafter
from guided.engine.engine import Engine
from guided.spec import GenerationRequest, GenerationResult
from tests.engine.architectures import LOGITS_WIDTH
from tests.engine.draft_models import make_draft
from tests.engine.drafters import Watch
from tests.engine.finite_language import TOKEN_BYTES, make_vocabulary
from tests.engine.random_heads import engine_with, random_eagle_drafter, random_medusa
from tests.engine.random_requests import COMPILER, free_requests, random_requests
from tests.engine.tiny_models import answers, make_engine, make_model, render
from tests.kit.effort import first_seed, is_long

ROUNDS = 100 if is_long() else 4
PAIRS, FREE = 10, 2
SEED = first_seed()
_LETTERS = (b"a", b"b", b"ab", b"_")
OPTIONS = {"start": COMPILER.start, "step_tokens": 24, "max_batch": 8}


@torch.no_grad()
def make_target() -> PreTrainedModel:
    """A model that prefers letters of the grammars, so its predictions are often legal."""
    model = make_model()
    liked = [token for token, text in enumerate(TOKEN_BYTES) if text in _LETTERS]
    likes = torch.full((LOGITS_WIDTH, 1), 0.2, dtype=torch.float64)
    likes[liked] = 1.0
    dict(model.named_parameters())["lm_head.weight"].mul_(likes)
    return model


@torch.no_grad()
def nearly_the_same() -> PreTrainedModel:
    """A draft model that is often right."""
    model = make_target()
    noise = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        weight.add_(0.1 * torch.randn(weight.shape, generator=noise, dtype=weight.dtype))
    return model


MODEL = make_target()
DRAFTERS: Mapping[str, Callable[[], Drafter]] = {
    "lookup": lambda: LookupDrafter(make_vocabulary()),
    "suffix": SuffixDrafter,
    "lookahead": lambda: LookaheadDrafter(columns=3, ngram=2),
    "draft": lambda: make_draft(nearly_the_same(), widths=(2, 1, 1), step_tokens=24),
    "medusa": random_medusa,
    "eagle": random_eagle_drafter,
}
SETS = [names for size in (1, 2) for names in combinations(DRAFTERS, size)]


@cache
def requests(number: int) -> dict[str, GenerationRequest]:
    """The requests of one round."""
    rng = random.Random(f"{SEED} {number}")
    leaving = random_requests(rng, FREE) | free_requests(rng, FREE)
    return {
        **random_requests(rng, PAIRS),
        **free_requests(rng, FREE),
        # Their prompts share no prefix with any other.
        **{
            f"leaves: {name}": replace(request, prompt=f"?{place}{request.prompt}")
            for place, (name, request) in enumerate(leaving.items())
        },
    }


@cache
def without_drafts(number: int) -> dict[str, GenerationResult]:
    return answers(make_engine(MODEL, drafters=(), widest_draft=0, **OPTIONS), requests(number))


class Campaign:
    """An engine with some drafters, and its counts over all rounds."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.drafters = [DRAFTERS[name]() for name in names]
        self.watch = Watch(self.drafters[0])
        self.engine = self._engine()
        self.pairs = self.drafted = self.accepted = self.left = 0

    def _engine(self) -> Engine:
        engine = engine_with(MODEL, [self.watch, *self.drafters[1:]], widest_draft=12, **OPTIONS)
        for drafter in self.drafters:
            if isinstance(drafter, EagleDrafter):
                engine._model.runner.tap(drafter.taps)
        return engine

    def run(self, number: int) -> None:
        """One round; every answer that was not cancelled has to be that without drafts."""
        asked = requests(number)
        for name, request in asked.items():
            # Without forcing only the drafters that the request names draft.
            self.engine.submit(name, replace(request, drafters=self.names))
        expected = without_drafts(number)
        leaving = [name for name in asked if name.startswith("leaves")]
        found = self._answers(leaving, asked)
        assert found.keys() >= asked.keys() - {*leaving}
        for name, result in found.items():
            told = f"round {number} of seed {SEED}, request {name}: {asked[name]}"
            assert result.tokens == expected[name].tokens, told
            assert result.finish_reason is expected[name].finish_reason, told
            self.drafted += result.usage.drafted_tokens
            self.accepted += result.usage.accepted_tokens
        self.pairs += sum(asked[name].constraint is not None for name in found)
        self._check_nothing_is_held()

    def _answers(
        self, leaving: list[str], asked: Mapping[str, GenerationRequest]
    ) -> dict[str, GenerationResult]:
        prompts = {name: render(asked[name].prompt, None) for name in leaving}
        found: dict[str, GenerationResult] = {}
        while self.engine.has_work:
            for finished in self.engine.step():
                assert isinstance(finished.outcome, GenerationResult), finished.outcome
                found[finished.request_id] = finished.outcome
            self.engine.check()
            for name in self.watch.take(prompts).keys() - found.keys():
                self.engine.cancel(name)
                self.left += 1
        return found

    def _check_nothing_is_held(self) -> None:
        assert self.engine.stats().cache.held == 0
        for drafter in self.drafters:
            if isinstance(drafter, DraftModel):
                drafter.texts.check()
                assert drafter.texts.num_blocks_held == 0
            if isinstance(drafter, EagleDrafter):
                drafter.check()
                assert drafter.num_open == 0


@pytest.mark.parametrize("names", SETS, ids="+".join)
def test_answers_are_those_without_drafts(
    names: tuple[str, ...], record_property: Callable[[str, object], None]
) -> None:
    campaign, first = Campaign(names), SETS.index(names) % (ROUNDS - 1)
    rounds = range(ROUNDS) if is_long() else (first, first + 1)
    for number in rounds:
        campaign.run(number)
    for told in ("pairs", "drafted", "accepted", "left"):
        record_property(told, getattr(campaign, told))
    assert campaign.pairs >= len(rounds) * PAIRS
    assert campaign.left > 0
    assert campaign.accepted > 0
