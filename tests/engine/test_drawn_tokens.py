"""A runner may draw tokens on the device of its logits; the answers are those of the logits."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import torch

from guided.decoding.device_draw import DeviceDraw
from guided.drafters.lookup import LookupDrafter
from guided.engine.step_deadline import TakesLongError
from guided.errors import LimitExceededError
from guided.masks.mask import tokens_of
from guided.model.batch import StepBatch, StepOutput
from guided.model.runner import ModelRunner
from guided.spec import Beams, Forcing, GenerationRequest, Sampling, TokenId, Verification
from tests.engine.finite_language import TOKEN_BYTES, AnythingMatcher, make_vocabulary
from tests.engine.tiny_models import answers, make_engine, make_model, words
from tests.kit.effort import first_seed, times

CITIES = words("London", "Lisbon", "Ljubljana", "Paris", "Prague", "Porto", "Rome")
DRAWN = {
    "free": GenerationRequest("a b a b a", max_tokens=24),
    "greedy": GenerationRequest("city: ", constraint=CITIES, max_tokens=30),
    "sampled": GenerationRequest(
        "city: ", constraint=CITIES, max_tokens=30, sampling=Sampling(0.8, seed=3)
    ),
    "free and sampled": GenerationRequest(
        "x y x y", max_tokens=24, sampling=Sampling(1.2, seed=2**63 - 1)
    ),
}
NOT_DRAWN = {
    "filtered": GenerationRequest("x", max_tokens=9, sampling=Sampling(1.0, seed=1, top_k=5)),
    "penalised": GenerationRequest("x", max_tokens=9, sampling=Sampling(repetition_penalty=1.3)),
    # Answers ask for log-probabilities, so that these can be compared.
    "three": GenerationRequest("x", max_tokens=9, n=3, sampling=Sampling(1.0, seed=5)),
    "told": GenerationRequest("x", max_tokens=9, top_logprobs=2),
    "by rejection": GenerationRequest(
        "x", max_tokens=9, sampling=Sampling(1.0, seed=1), verification=Verification.REJECTION
    ),
    "contrastive": GenerationRequest(
        "x", max_tokens=6, sampling=Sampling(penalty_alpha=0.6, top_k=3)
    ),
    "beams": GenerationRequest("x", max_tokens=6, beams=Beams(2)),
}


class DrawingRunner(ModelRunner):
    """Draws tokens itself, and does not give out the logits of the rows that it drew from."""

    def __init__(self, *arguments: Any, is_secret: bool = True, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.drawn = self.left = 0
        self._is_secret = is_secret

    def forward(self, batch: StepBatch) -> StepOutput:
        output = super().forward(batch)
        if batch.device_draws is None:
            return output
        wanted = batch.device_draws()
        logits = output.logits.float().clone()
        drawn = tuple(map(drawn_from, logits, wanted))
        for row, token in zip(logits, drawn, strict=True):
            self.drawn += token is not None
            self.left += token is None
            if token is not None and self._is_secret:
                row.fill_(float("nan"))
        return replace(output, logits=logits, drawn=drawn)


def drawn_from(row: torch.Tensor, draw: DeviceDraw | None) -> TokenId | None:
    """By definition, token by token."""
    if draw is None:
        return None
    allowed = [token for token in tokens_of(draw.mask).tolist() if token < len(row)]
    if draw.temperature == 0.0:
        return TokenId(max(allowed, key=lambda token: float(row[token])))

    def noisy(token: int) -> float:
        bits = splitmix((token + 1) * 0x9E3779B97F4A7C15 + draw.stream)
        uniform = ((bits >> 11) + 0.5) / 2**53
        return float(row[token]) / draw.temperature - math.log(-math.log(uniform))

    return TokenId(max(allowed, key=noisy))


def splitmix(word: int) -> int:
    """One number of SplitMix64 (Steele, Lea and Flood, 2014), from its state."""
    word = (word + 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def runner(**options: Any) -> DrawingRunner:
    model = make_model(dtype=torch.float32)
    return DrawingRunner(model, vocabulary_size=len(TOKEN_BYTES), **options)


def told(requests: dict[str, GenerationRequest], **options: Any) -> dict[str, Any]:
    found = answers(make_engine(**options), requests)
    return {
        name: [(one.tokens, one.finish_reason) for one in result.candidates or (result,)]
        for name, result in found.items()
    }


@pytest.mark.parametrize("drafters", [(), ("lookup",)])
def test_what_is_drawn_is_the_answer(drafters: tuple[str, ...]) -> None:
    drafting: dict[str, Any] = (
        {"drafters": [LookupDrafter(make_vocabulary())], "widest_draft": 6} if drafters else {}
    )
    model = make_model(dtype=torch.float32)
    drawing = runner()
    assert told(DRAWN, runner=drawing, **drafting) == told(DRAWN, model=model, **drafting)
    assert drawing.drawn >= 40


def test_what_takes_more_than_a_draw_gets_the_logits() -> None:
    drawing = runner()
    model = make_model(dtype=torch.float32)
    assert told(NOT_DRAWN, runner=drawing) == told(NOT_DRAWN, model=model)
    assert drawing.drawn == 0
    assert drawing.left > 30


@pytest.mark.parametrize("tokens", [3, 4, 5, 6, 7, 8])
def test_a_draw_that_leaves_no_room_for_an_end_is_made_again(tokens: int) -> None:
    requests = {
        str(seed): GenerationRequest(
            "city: ", constraint=CITIES, max_tokens=tokens, sampling=Sampling(1.5, seed=seed)
        )
        for seed in range(6)
    }
    model = make_model(dtype=torch.float32)
    assert told(requests, runner=runner(is_secret=False)) == told(requests, model=model)


def any_requests(numbers: random.Random) -> dict[str, GenerationRequest]:
    return {
        str(number): GenerationRequest(
            numbers.choice(["a b a b a b", "city: London city: London city: ", "x y x y x y"]),
            constraint=numbers.choice([None, CITIES, CITIES]),
            max_tokens=numbers.randint(8, 40),
            sampling=Sampling(numbers.choice([0.0, 0.02, 0.3, 1.0]), seed=numbers.randint(0, 5)),
            forcing=numbers.choice(list(Forcing)),
        )
        for number in range(8)
    }


@pytest.mark.parametrize("seed", range(first_seed(), first_seed() + times(6)))
def test_after_drafts_as_without(seed: int) -> None:
    """Each drafted token is drawn with the noise of its own place."""
    numbers = random.Random(seed)
    requests, step_tokens = any_requests(numbers), numbers.choice([16, 64, 512])
    drawing = runner(is_secret=False)
    found = told(
        requests,
        runner=drawing,
        drafters=[LookupDrafter(make_vocabulary())],
        widest_draft=8,
        step_tokens=step_tokens,
        max_batch=numbers.choice([2, 16]),
    )
    assert found == told(requests, model=make_model(dtype=torch.float32))
    assert drawing.drawn > 20


def faulty_masks(monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    """Let every other mask fail, from the first on."""
    calls, mask = count(), AnythingMatcher.mask

    def failing(matcher: AnythingMatcher) -> Any:
        if next(calls) % 2 == 0:
            raise fault
        return mask(matcher)

    monkeypatch.setattr(AnythingMatcher, "mask", failing)


@pytest.mark.parametrize(
    "fault", [LimitExceededError("too much", limit=1), TakesLongError(), ValueError()]
)
def test_what_has_no_mask_yet_is_chosen_by_the_logits(
    fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = {"r": GenerationRequest("x", max_tokens=8)}
    expected = told(requests, model=make_model(dtype=torch.float32))
    faulty_masks(monkeypatch, fault)
    drawing = runner()
    assert told(requests, runner=drawing) == expected
    assert (drawing.drawn, drawing.left) == (0, 8)


def test_what_ends_the_process_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty_masks(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        told({"r": GenerationRequest("x", max_tokens=3)}, runner=runner())
