"""Guesses change how many model calls an answer takes, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from guided.decoding import TreeGrowth
from guided.spec import Forcing, GenerationRequest, GenerationResult, Sampling, TokenId
from tests.engine.finite_language import TOKEN_BYTES
from tests.engine.tiny_models import CONFIGS, answers, make_engine, make_model, render, words

CONSTRAINT = words(
    '{"name":"abcd","me":12}',
    '{"name":"abc","me":[1,2]}',
    '{"name":"zebra","me":1212}',
    '{"name":"12abab12","me":7}',
)


def requests(forcing: Forcing, temperature: float) -> dict[str, GenerationRequest]:
    free = {
        prompt: GenerationRequest(
            prompt=prompt,
            max_tokens=18,
            sampling=Sampling(temperature=temperature, seed=5),
            forcing=forcing,
        )
        for prompt in ("hello name", "the quick brown fox jumps")
    }
    constrained = {
        f"{prompt}, constrained": GenerationRequest(
            prompt=prompt,
            constraint=CONSTRAINT,
            max_tokens=40,
            sampling=Sampling(temperature=temperature, seed=6),
            forcing=forcing,
        )
        for prompt in ("who?", "abc")
    }
    return free | constrained


class Prophet:
    """Guesses the answers of an earlier run, with wrong branches and now and then a wrong turn."""

    def __init__(self, known: Sequence[tuple[TokenId, ...]], errors: float) -> None:
        self.known = known
        self.errors = errors
        self.draws = random.Random(0)

    def __call__(self, tokens: Sequence[TokenId], growth: TreeGrowth) -> None:
        node = growth.tip
        so_far = tuple(tokens)
        while growth.room:
            done = len(so_far)
            following = [k[done] for k in self.known if len(k) > done and k[:done] == so_far]
            if not following:
                return
            wrong = [TokenId(self.draws.randrange(2, len(TOKEN_BYTES))) for _ in range(3)]
            first_wrong = self.draws.random() < self.errors
            order = [*wrong, following[0]] if first_wrong else [following[0], *wrong]
            tips = [growth.guess(node, token) for token in order]
            tip = tips[-1] if first_wrong else tips[0]
            if tip is None:
                return
            tree = growth.tree()
            line: list[TokenId] = []
            at: int | None = tip
            while at is not None and at != node:
                line.insert(0, tree.tokens[at])
                at = tree.parents[at]
            so_far = (*so_far, *line)
            node = tip


def tokens(results: dict[str, GenerationResult]) -> dict[str, tuple[TokenId, ...]]:
    return {key: result.tokens for key, result in results.items()}


def calls(results: dict[str, GenerationResult]) -> int:
    return sum(result.usage.model_calls for result in results.values())


def full_texts(
    asked: dict[str, GenerationRequest], results: dict[str, GenerationResult]
) -> list[tuple[TokenId, ...]]:
    return [(*render(asked[k].prompt, None), *results[k].tokens) for k in results]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("forcing", Forcing)
@pytest.mark.parametrize("architecture", CONFIGS)
def test_answers_with_guesses_equal_those_without(
    architecture: str, forcing: Forcing, temperature: float
) -> None:
    """Right and wrong guesses, branching, in a batch; windows shorter than the text included."""
    model = make_model(architecture)
    asked = requests(forcing, temperature)
    plain = answers(make_engine(model), asked)
    prophet = Prophet(full_texts(asked, plain), errors=0.3)
    guessed = answers(
        make_engine(model, drafter=prophet, widest_draft=24, step_tokens=32, max_batch=3), asked
    )
    assert tokens(guessed) == tokens(plain)
    assert calls(guessed) < calls(plain) * 0.6
    for key, result in guessed.items():
        assert result.usage.forced_tokens == plain[key].usage.forced_tokens
        assert result.usage.sampled_tokens == plain[key].usage.sampled_tokens
        assert result.finish_reason is plain[key].finish_reason


def guess_anything(tokens: Sequence[TokenId], growth: TreeGrowth) -> None:  # noqa: ARG001
    """Every legal token there is room for: always right, and mostly wrong."""
    node = growth.tip
    for token in range(len(TOKEN_BYTES)):
        growth.guess(node, TokenId(token))


@pytest.mark.parametrize("forcing", Forcing)
def test_wide_guesses_near_the_end_of_a_budget_still_close(forcing: Forcing) -> None:
    engine = make_engine(drafter=guess_anything, widest_draft=30)
    plain = make_engine()
    for max_tokens in range(12, 30, 4):
        asked: dict[str, Any] = {
            "r": GenerationRequest(
                prompt="go",
                constraint=CONSTRAINT,
                max_tokens=max_tokens,
                forcing=forcing,
                sampling=Sampling(temperature=2.0, seed=max_tokens),
            )
        }
        assert tokens(answers(engine, asked)) == tokens(answers(plain, asked))
