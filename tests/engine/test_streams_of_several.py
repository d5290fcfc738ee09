"""Several answers to one request grow side by side, and each ends by itself."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest

from guided.drafters import LookupDrafter
from guided.engine.engine import Engine
from guided.errors import IncompleteAnswerError, RequestError
from guided.spec import (
    Beams,
    CandidateResult,
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    OnIncomplete,
    Sampling,
    TokenLogprobs,
    Usage,
)
from tests.engine.finite_language import make_vocabulary
from tests.engine.tiny_models import answers, make_engine, make_model, words

MODEL = make_model()
WORDS = ("naïve abc", "名前12", "abcabc語", '{"name":"é"}', "a")


def drawn(n: int, **options: Any) -> GenerationRequest:
    sampling = Sampling(temperature=3.0, seed=7 + n)
    return GenerationRequest(
        **{"prompt": "hello", "max_tokens": 24, **options}, n=n, sampling=sampling
    )


REQUESTS = {
    **{f"free {n}": drawn(n) for n in (2, 3, 4)},
    "alone": drawn(1),
    "words": drawn(4, constraint=words(*WORDS)),
    "words in steps": drawn(3, constraint=words(*WORDS), forcing=Forcing.OFF),
    "stopped": drawn(3, stop=("na", "abc", "e", "語"), constraint=words(*WORDS)),
    "scored": drawn(3, top_logprobs=1),
    "decided": drawn(2, constraint=words("語")),
}
"""The answers to the last one are known before any model call."""


@cache
def plain() -> dict[str, GenerationResult]:
    return answers(make_engine(MODEL), REQUESTS)


class Heard:
    """What an engine said of each answer, in order."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, int], list[str]] = defaultdict(list)
        self.logprobs: dict[tuple[str, int], list[TokenLogprobs]] = defaultdict(list)
        self.ended: dict[tuple[str, int], CandidateResult] = {}
        self.steps: dict[tuple[str, int], int] = {}
        """The step in which each answer ended."""
        self.results: dict[str, object] = {}

    def run(self, engine: Engine, requests: dict[str, GenerationRequest]) -> None:
        for key, request in requests.items():
            engine.submit(key, request, stream=True)
        step = 0
        while engine.has_work:
            finished, step = engine.step(), step + 1
            engine.check()
            for delta in engine.take_deltas():
                place = (delta.request_id, delta.index)
                assert place not in self.ended, "text came after the end of its answer"
                assert delta.request_id not in self.results
                assert delta.text or delta.ended is not None
                self.texts[place].append(delta.text)
                self.logprobs[place] += delta.logprobs
                if delta.ended is not None:
                    self.ended[place], self.steps[place] = delta.ended, step
            self.results |= {each.request_id: each.outcome for each in finished}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"step_tokens": 12, "max_batch": 5},
        {"cache_tokens": 60, "reuse_prefixes": False},
        {
            "drafters": (LookupDrafter(make_vocabulary()),),
            "widest_draft": 12,
            "cache_tokens": 80,
            "step_tokens": 20,
        },
    ],
)
def test_each_answer_is_the_one_that_comes_whole(options: dict[str, Any]) -> None:
    engine, heard = make_engine(MODEL, **options), Heard()
    heard.run(engine, REQUESTS)
    for key, request in REQUESTS.items():
        result = heard.results[key]
        assert isinstance(result, GenerationResult)
        whole = plain()[key]
        assert result.text == whole.text
        if request.n == 1:
            assert "".join(heard.texts[key, 0]) == whole.text
            assert (key, 0) not in heard.ended, "its end is that of its request"
            continue
        for one, same in zip(result.candidates, whole.candidates, strict=True):
            assert "".join(heard.texts[key, one.index]) == one.text == same.text
            assert heard.ended[key, one.index] == one
            assert one.finish_reason is same.finish_reason
    if "cache_tokens" in options:
        assert engine.stats().preempted > 0
    assert len({heard.steps["words in steps", index] for index in range(3)}) > 1, "not all at once"


def test_log_probabilities_come_only_if_they_are_requested() -> None:
    heard = Heard()
    heard.run(make_engine(MODEL), REQUESTS)
    for (key, index), scored in heard.logprobs.items():
        if key == "scored":
            assert scored
            assert heard.ended[key, index].logprobs[: len(scored)] == (*scored,)
        else:
            assert scored == []


def test_the_tokens_of_the_answers_are_those_of_the_request() -> None:
    for key, result in plain().items():
        if not result.candidates:
            continue
        own = [one.usage or Usage() for one in result.candidates]
        assert [each.output_tokens for each in own] == [
            len(one.tokens) for one in result.candidates
        ]
        total = Usage.total(own)
        assert total.sampled_tokens == result.usage.sampled_tokens, key
        assert total.forced_tokens == result.usage.forced_tokens, key
        assert total.model_calls == total.prompt_tokens == 0, "these are shared"


def test_answers_cut_short_are_heard_before_the_error_that_they_make() -> None:
    heard = Heard()
    heard.run(make_engine(MODEL), {"r": drawn(2, on_incomplete=OnIncomplete.ERROR, max_tokens=3)})
    assert isinstance(heard.results["r"], IncompleteAnswerError)
    assert [heard.ended["r", index].finish_reason for index in range(2)] == [
        FinishReason.LENGTH
    ] * 2


def test_a_cancelled_request_says_no_more_of_any_answer() -> None:
    engine = make_engine(MODEL)
    engine.submit("r", REQUESTS["free 3"], stream=True)
    engine.step()
    engine.step()
    engine.cancel("r")
    assert engine.take_deltas() == []
    assert not engine.has_work
    engine.check()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"beams": Beams(2), "n": 2}, "beams"),
        ({"best_of": 3, "n": 2, "sampling": Sampling(temperature=1.0)}, "best_of"),
    ],
)
def test_answers_that_are_ranked_are_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        make_engine(MODEL).submit("r", GenerationRequest("x", **options), stream=True)
    assert str(caught.value) == (
        f"answers of {field} cannot be streamed: what they say is certain only at the end; "
        "draw n answers, or do not stream"
    )
    assert caught.value.field == field
