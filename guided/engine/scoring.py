"""Scores that decide which of the answers to one request is best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from guided.decoding.logprobs import mean_logprob
from guided.errors import RequestError
from guided.masks.vocabulary import Vocabulary
from guided.spec import EnginePrompt, GenerationRequest, Rank

if TYPE_CHECKING:
    from guided.engine.answer_state import AnswerState

__all__ = ["Judge", "Scorer", "by_likelihood", "scorer_for"]

Scorer: TypeAlias = Callable[[Sequence["AnswerState"]], list[float]]
"""Scores finished answers to one request, higher is better."""


class Judge(Protocol):
    """Another model that scores answers."""

    def check(self, prompt: EnginePrompt) -> None:
        """Raise ``RequestError`` if answers to such a prompt cannot be scored."""
        ...

    def scores(self, prompt: EnginePrompt, answers: Sequence[str]) -> list[float]:
        """Return the score of each answer, higher is better."""
        ...


def scorer_for(request: GenerationRequest, judge: Judge | None, vocabulary: Vocabulary) -> Scorer:
    """Return the scorer that a request wants."""
    if request.rank is Rank.LIKELIHOOD:
        return by_likelihood
    if judge is None:
        raise RequestError(
            "rank 'reward' needs a reward model, and none is loaded",
            field="rank",
            hint="start the server with --reward-model, or rank by likelihood",
        )
    # Before the answers are made, so that an unreadable prompt costs nothing.
    begun = request.begun
    prompt = request.prompt
    if begun:
        assert isinstance(prompt, tuple), "only a message is continued"
        prompt = prompt[:-1]
    judge.check(prompt)
    # For the type checker: within the closure ``judge`` could be ``None`` again.
    chosen = judge

    def by_reward(answers: Sequence[AnswerState]) -> list[float]:
        return chosen.scores(prompt, [begun + answer.text(vocabulary) for answer in answers])

    return by_reward


def by_likelihood(answers: Sequence[AnswerState]) -> list[float]:
    """Return how likely the model thought each answer."""
    return [mean_logprob(answer.chosen_logprobs) for answer in answers]
