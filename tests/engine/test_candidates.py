"""Several drawn answers to one request: each as if alone, with the prompt computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from guided.decoding import DraftContext, DraftRequest
from guided.drafters import LookupDrafter
from guided.drafters.lookup import LookupDraftState
from guided.errors import LimitExceededError, TokenRejectedError
from guided.model.runner import ModelRunner
from guided.spec import Constraint, Forcing, GenerationRequest, GenerationResult, Sampling
from tests.engine.finite_language import AnythingMatcher, make_vocabulary
from tests.engine.tiny_models import answers, drain, make_engine, make_model, render, start, words

PREAMBLE = "the quick brown fox jumps over the lazy dog "
PEOPLE = words(
    '{"name":"abcd","me":12}',
    '{"name":"abc","me":[1,2]}',
    '{"name":"zebra","me":1212}',
    '{"name":"12abab12","me":7}',
)
SEED = 2**63 - 2  # the seeds after it begin at 0 again


class Opened:
    """A lookup drafter that keeps what it knows of the sequences that it opens."""

    name = "lookup"
    wants_hidden_states = False
    widths = ()

    def __init__(self) -> None:
        self._drafter = LookupDrafter(make_vocabulary())
        self.contexts: list[DraftContext] = []

    def open(self, context: DraftContext) -> LookupDraftState:
        self.contexts.append(context)
        return self._drafter.open(context)

    def propose(self, drafts: Sequence[DraftRequest]) -> None:
        self._drafter.propose(drafts)


def several(n: int, **options: Any) -> dict[str, GenerationRequest]:
    return {
        "free": GenerationRequest(
            PREAMBLE + "abc", max_tokens=14, n=n, sampling=Sampling(2.0, seed=SEED), **options
        ),
        "people": GenerationRequest(
            "who?", PEOPLE, max_tokens=40, n=n, sampling=Sampling(3.0, seed=SEED), **options
        ),
    }


def each_alone(architecture: str, requests: dict[str, GenerationRequest]) -> dict[str, Any]:
    """The answers of separate requests, with the documented seeds."""
    model = make_model(architecture)
    found = {}
    for key, request in requests.items():
        found[key] = [
            answers(
                make_engine(model, reuse_prefixes=False),
                {
                    "one": GenerationRequest(
                        request.prompt,
                        request.constraint,
                        max_tokens=request.most_tokens,
                        forcing=request.forcing,
                        sampling=Sampling(
                            request.sampling.temperature, seed=(SEED + index) % 2**63
                        ),
                    )
                },
            )["one"].tokens
            for index in range(request.n)
        ]
    return found


def given(results: dict[str, GenerationResult], keys: Sequence[str]) -> dict[str, Any]:
    return {key: [candidate.tokens for candidate in results[key].candidates] for key in keys}


@pytest.mark.parametrize(
    ("architecture", "forcing", "options"),
    [
        ("llama", Forcing.OFF, {}),
        ("llama", Forcing.STRICT, {"step_tokens": 9, "max_batch": 7}),
        ("llama", Forcing.CANONICAL, {"draft": True}),
        ("llama", Forcing.STRICT, {"cache_tokens": 112, "block_size": 4, "reuse_prefixes": False}),
        ("llama", Forcing.STRICT, {"cache_tokens": 112, "block_size": 1, "draft": True}),
        ("gemma3_sliding", Forcing.STRICT, {"step_tokens": 9, "max_batch": 7}),
        ("gemma3_sliding", Forcing.CANONICAL, {"cache_tokens": 112, "block_size": 4}),
        ("mistral_sliding", Forcing.STRICT, {"draft": True}),
    ],
)
def test_each_answer_is_that_of_a_request_with_its_seed(
    architecture: str, forcing: Forcing, options: dict[str, Any]
) -> None:
    requests = several(5, forcing=forcing)
    neighbours = {
        str(number): GenerationRequest("hello name", max_tokens=20, sampling=Sampling(1.0))
        for number in range(3)
    }
    settings = dict(options)
    if settings.pop("draft", False):
        settings |= {"drafters": (LookupDrafter(make_vocabulary()),), "widest_draft": 8}
    engine = make_engine(make_model(architecture), **settings)
    results = answers(engine, neighbours | requests)
    assert given(results, list(requests)) == each_alone(architecture, requests)
    for key in requests:
        assert results[key].tokens == results[key].candidates[0].tokens
        assert [candidate.index for candidate in results[key].candidates] == list(range(5))
        assert len({candidate.tokens for candidate in results[key].candidates}) > 1
    if architecture == "llama" and "cache_tokens" in options:
        assert engine.stats().preempted > 0


def test_drafters_keep_what_they_know_of_the_prompt_for_all_answers() -> None:
    opened = Opened()
    engine = make_engine(make_model(), drafters=(opened,), widest_draft=8)
    answers(engine, several(3))
    kept: dict[tuple[int, ...], set[int]] = {}
    for context in opened.contexts:
        kept.setdefault(context.prompt, set()).add(id(context.shared))
        assert list(context.shared) == ["lookup"]
    # Two requests with three answers each.
    assert len(opened.contexts) == 6
    assert len(kept) == len(set().union(*kept.values())) == 2


def test_the_prompt_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows lie after the full blocks: three of the four answers copy them."""
    fed: list[int] = []
    forward = ModelRunner.forward

    def counted(self: ModelRunner, batch: Any) -> Any:
        fed.append(len(batch.tokens))
        return forward(self, batch)

    monkeypatch.setattr(ModelRunner, "forward", counted)
    prompt = PREAMBLE + "abx"
    size = len(render(prompt, None))
    assert size % 4 == 2
    request = GenerationRequest(prompt, max_tokens=5, n=4, sampling=Sampling(1.0, seed=1))
    result = answers(make_engine(block_size=4), {"r": request})["r"]
    assert all(len(candidate.tokens) == 5 for candidate in result.candidates)
    assert fed == [size, 4, 4, 4, 4]
    usage = result.usage
    assert (usage.prompt_tokens, usage.reused_tokens) == (size, 0)
    assert (usage.shared_tokens, usage.copied_tokens) == (3 * size, 3 * 2)
    assert (usage.model_calls, usage.sampled_tokens) == (5, 20)


def test_one_answer_shares_nothing_and_has_no_candidates() -> None:
    result = answers(make_engine(), {"r": GenerationRequest("abc", max_tokens=5)})["r"]
    assert result.candidates == ()
    assert (result.usage.shared_tokens, result.usage.copied_tokens) == (0, 0)


def test_a_seed_that_is_not_given_is_drawn_once_and_the_answers_differ() -> None:
    request = GenerationRequest("hello", max_tokens=8, n=6, sampling=Sampling(2.0))
    result = answers(make_engine(), {"r": request})["r"]
    assert len({candidate.tokens for candidate in result.candidates}) == 6


# --- best_of


@pytest.mark.parametrize("forcing", Forcing)
def test_the_best_are_those_with_the_highest_mean_of_raw_log_probabilities(
    forcing: Forcing,
) -> None:
    request = GenerationRequest(
        "who?",
        PEOPLE,
        max_tokens=40,
        sampling=Sampling(3.0, seed=4),
        forcing=forcing,
        n=2,
        best_of=6,
    )
    result = answers(make_engine(), {"r": request})["r"]
    means = []
    for index in range(6):
        own = GenerationRequest(
            "who?",
            PEOPLE,
            max_tokens=40,
            sampling=Sampling(3.0, seed=4 + index),
            forcing=forcing,
            top_logprobs=0,
        )
        logprobs = answers(make_engine(), {"r": own})["r"].logprobs
        # No word begins another, so no end is ever chosen.
        raw = [one.raw for one in logprobs if one.raw is not None and one.masked != 0]
        means.append((sum(raw) / len(raw), index))
    best = sorted(means, reverse=True)[:2]
    assert [candidate.index for candidate in result.candidates] == [index for _, index in best]
    assert [candidate.score for candidate in result.candidates] == pytest.approx(
        [mean for mean, _ in best]
    )
    assert result.text == result.candidates[0].text


def test_strict_runs_change_no_score_and_no_rank() -> None:
    found = []
    for forcing in (Forcing.OFF, Forcing.STRICT):
        request = several(5, forcing=forcing, best_of=8)["people"]
        result = answers(make_engine(), {"r": request})["r"]
        found.append([(one.index, round(one.score, 9), one.tokens) for one in result.candidates])
    assert found[0] == found[1]


def test_the_end_that_the_model_chose_counts() -> None:
    """An answer of one letter, which an end or another may follow, has two log-probabilities."""
    language = words("x", "xy", "xz")
    request = GenerationRequest("q", language, max_tokens=3, sampling=Sampling(50.0, seed=0), n=8)
    result = answers(make_engine(), {"r": request})["r"]
    scores = {candidate.text: candidate.score for candidate in result.candidates}
    assert scores.keys() >= {"x", "xy"}
    longer = GenerationRequest(
        "q", words("x"), max_tokens=3, sampling=Sampling(1.0), n=1, best_of=2
    )
    assert answers(make_engine(), {"r": longer})["r"].candidates[0].score == 0.0  # no choice
    assert scores["x"] < 0


def test_log_probabilities_are_told_for_each_candidate_only_where_asked_for() -> None:
    request = several(2, top_logprobs=1)["people"]
    result = answers(make_engine(), {"r": request})["r"]
    for candidate in result.candidates:
        assert [one.token for one in candidate.logprobs] == list(candidate.tokens)
    silent = answers(make_engine(), {"r": several(2)["people"]})["r"]
    assert [candidate.logprobs for candidate in silent.candidates] == [(), ()]


# --- groups as a whole


def test_an_answer_without_a_choice_is_given_n_times() -> None:
    request = GenerationRequest("x", words("nanana"), max_tokens=9, sampling=Sampling(1.0), n=3)
    result = answers(make_engine(), {"r": request})["r"]
    assert [candidate.text for candidate in result.candidates] == ["nanana"] * 3


class FaultyMatcher(AnythingMatcher):
    """Raises after one token, wherever that occurs."""

    def advance(self, token: Any) -> FaultyMatcher:
        if token % 5 == 0:
            raise TokenRejectedError("token is not allowed here", token=token)
        return self


@pytest.mark.parametrize("max_tokens", [1, 3, 12])
def test_an_answer_that_fails_ends_its_request_and_no_other(max_tokens: int) -> None:
    """The cache has room for one at a time, so blocks that were not released would be missed."""

    def start_faulty(constraint: Constraint) -> Any:
        return FaultyMatcher() if constraint == words("faulty") else start(constraint)

    good = GenerationRequest("hello name", max_tokens=9)
    alone = answers(make_engine(), {"good": good})["good"].tokens
    engine = make_engine(start=start_faulty, cache_tokens=48, reuse_prefixes=False)
    outcomes = set()
    for number in range(12):
        bad = GenerationRequest(
            "x",
            words("faulty"),
            max_tokens=max_tokens,
            n=4,
            sampling=Sampling(5.0, seed=4 * number),
        )
        engine.submit("bad", bad)
        engine.submit("good", good)
        ended = drain(engine)
        outcomes.add(type(ended["bad"].outcome))
        assert isinstance(ended["good"].outcome, GenerationResult)
        assert ended["good"].outcome.tokens == alone
    assert TokenRejectedError in outcomes
    whole = GenerationRequest("x", max_tokens=46)
    assert isinstance(answers(engine, {"whole": whole})["whole"], GenerationResult), (
        "the cache is all there"
    )


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_cancelled_request_takes_all_its_answers_along(steps: int) -> None:
    engine = make_engine(cache_tokens=64, block_size=4, reuse_prefixes=False)
    request = GenerationRequest("abcdefghij", max_tokens=30, n=4, sampling=Sampling(1.0, seed=1))
    for _ in range(3):
        engine.submit("gone", request)
        for _ in range(steps):
            engine.step()
            engine.check()
        engine.cancel("gone")
        engine.check()
        assert not engine.has_work
    assert len(answers(engine, {"r": request})["r"].candidates) == 4


def test_more_answers_than_a_batch_has_places_are_refused() -> None:
    engine = make_engine(max_batch=4)
    for n, best_of, field in ((5, None, "n"), (1, 5, "best_of")):
        request = GenerationRequest("x", max_tokens=2, sampling=Sampling(1.0), n=n, best_of=best_of)
        with pytest.raises(LimitExceededError) as caught:
            engine.submit("a", request)
        assert str(caught.value) == (
            f"{field} is 5, but the engine runs 4 answers at once; ask for fewer"
        )
        assert caught.value.field == field


def test_an_id_is_in_use_until_the_last_answer() -> None:
    engine = make_engine()
    request = several(3)["people"]
    engine.submit("a", request)
    ended = drain(engine)
    assert list(ended) == ["a"]
    engine.submit("a", request)
    assert drain(engine).keys() == {"a"}
