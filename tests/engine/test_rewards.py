"""``best_of`` by another model's scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from guided.errors import InternalServiceError, RequestError
from guided.spec import GenerationRequest, GenerationResult, Rank, Sampling
from tests.engine.tiny_models import answers, drain, make_engine, words

PEOPLE = words('{"name":"abcd","me":12}', '{"name":"abc","me":[1,2]}', '{"name":"zebra","me":7}')


class Reader:
    """Likes texts by the sum of their bytes."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, tuple[str, ...]]] = []

    def check(self, prompt: Any) -> None:
        if prompt == "unreadable":
            raise RequestError("the judge cannot read this", field="rank")

    def scores(self, prompt: Any, answers: Sequence[str]) -> list[float]:
        self.asked.append((prompt, tuple(answers)))
        if prompt == "unscored":
            raise ZeroDivisionError
        return [float(sum(answer.encode())) for answer in answers]


def request(prompt: str, **options: Any) -> GenerationRequest:
    return GenerationRequest(
        prompt, max_tokens=40, sampling=Sampling(3.0, seed=4), best_of=6, **options
    )


def test_the_best_are_those_that_the_judge_likes() -> None:
    judge = Reader()
    asked = request("who?", constraint=PEOPLE, n=3, rank=Rank.REWARD)
    result = answers(make_engine(judge=judge), {"r": asked})["r"]
    ((prompt, texts),) = judge.asked
    assert (prompt, len(texts)) == ("who?", 6)
    scores = [float(sum(text.encode())) for text in texts]
    best = sorted(range(6), key=lambda index: -scores[index])[:3]
    assert [one.index for one in result.candidates] == best
    assert [one.score for one in result.candidates] == [scores[index] for index in best]
    assert [one.text for one in result.candidates] == [texts[index] for index in best]


def test_the_judge_is_asked_only_where_a_request_says_so() -> None:
    judge = Reader()
    asked = request("who?", constraint=PEOPLE, n=3)
    result = answers(make_engine(judge=judge), {"r": asked})["r"]
    assert judge.asked == []
    assert all(one.score <= 0 for one in result.candidates)


def test_a_judge_that_fails_ends_its_request_alone() -> None:
    engine = make_engine(judge=Reader())
    engine.submit("bad", request("unscored", rank=Rank.REWARD))
    engine.submit("good", request("scored", rank=Rank.REWARD))
    ended = drain(engine)
    assert isinstance(ended["good"].outcome, GenerationResult)
    assert isinstance(ended["bad"].outcome, InternalServiceError)


def test_without_a_judge_and_with_one_that_cannot_read_it_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        make_engine().submit("r", request("who?", rank=Rank.REWARD))
    assert str(caught.value) == (
        "rank 'reward' needs a reward model, and none is loaded; start the server with "
        "--reward-model, or rank by likelihood"
    )
    assert caught.value.field == "rank"
    with pytest.raises(RequestError, match="the judge cannot read this"):
        make_engine(judge=Reader()).submit("r", request("unreadable", rank=Rank.REWARD))
