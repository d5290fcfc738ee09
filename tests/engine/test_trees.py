"""Drafts change how many model calls an answer takes, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from guided.decoding import CostCurve, DraftBuilder, VerifiedStep
from guided.drafters import LookupDrafter
from guided.spec import Forcing, GenerationRequest, GenerationResult, Sampling, TokenId, Usage
from tests.engine.architectures import CONFIGS
from tests.engine.drafters import OneByOne, Prophet
from tests.engine.finite_language import TOKEN_BYTES, make_vocabulary
from tests.engine.tiny_models import answers, make_engine, make_model, render, results, words
from tests.kit.effort import crossed

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


def tokens(results: dict[str, GenerationResult]) -> dict[str, tuple[TokenId, ...]]:
    return {key: result.tokens for key, result in results.items()}


def calls(results: dict[str, GenerationResult]) -> int:
    return sum(result.usage.model_calls for result in results.values())


def full_texts(
    asked: dict[str, GenerationRequest], results: dict[str, GenerationResult]
) -> list[tuple[TokenId, ...]]:
    return [(*render(asked[k].prompt, None), *results[k].tokens) for k in results]


@pytest.mark.parametrize(
    ("architecture", "forcing", "temperature"), crossed(CONFIGS, Forcing, [0.0, 1.0])
)
def test_answers_with_drafts_equal_those_without(
    architecture: str, forcing: Forcing, temperature: float
) -> None:
    """Right, wrong and branching drafts in a batch; also with windows shorter than the text."""
    model = make_model(architecture)
    asked = requests(forcing, temperature)
    plain = answers(make_engine(model), asked)
    prophet = Prophet(full_texts(asked, plain), errors=0.3)
    # Without forcing only the drafters that the request names draft.
    naming = {key: replace(each, drafters=(prophet.name,)) for key, each in asked.items()}
    drafted = answers(
        make_engine(model, drafters=(prophet,), widest_draft=24, step_tokens=32, max_batch=3),
        naming,
    )
    assert tokens(drafted) == tokens(plain)
    assert calls(drafted) < calls(plain) * 0.6
    for key, result in drafted.items():
        assert result.usage.forced_tokens == plain[key].usage.forced_tokens
        assert result.usage.sampled_tokens == plain[key].usage.sampled_tokens
        assert result.finish_reason is plain[key].finish_reason


class DraftAnything(OneByOne):
    """Drafts every legal token that there is room for: one is always right, most are wrong."""

    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:  # noqa: ARG002
        node = builder.last_node
        for token in range(len(TOKEN_BYTES)):
            builder.add(node, TokenId(token))


@pytest.mark.parametrize("forcing", Forcing)
def test_wide_drafts_near_the_end_of_a_budget_still_close(forcing: Forcing) -> None:
    engine = make_engine(drafters=(DraftAnything(),), widest_draft=30)
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


RISING = CostCurve(((1, 0.010), (8, 0.011), (16, 0.013), (64, 0.040)))
"""Seconds as on a small machine: a few tokens more cost little, many cost a lot."""


def look_up(**options: Any) -> dict[str, Any]:
    """An engine's options for the drafter that the server has."""
    return {"drafters": (LookupDrafter(make_vocabulary()),), "widest_draft": 16} | options


def repeating_requests(forcing: Forcing, temperature: float) -> dict[str, GenerationRequest]:
    """Answers that copy their prompt and themselves, free ones among them."""
    asked = requests(forcing, temperature)
    sampling = Sampling(temperature=temperature, seed=7)
    copies = words(*(f'{{"name":"{a} {b} {a}"}}' for a in ("abcd", "zebra", "12") for b in "xyz"))
    for prompt in ("zebra x zebra, abcd y abcd", "12 z 12"):
        asked[prompt] = GenerationRequest(
            prompt=prompt, constraint=copies, max_tokens=40, sampling=sampling, forcing=forcing
        )
    return asked


@pytest.mark.parametrize(
    ("model_and_costs", "forcing_and_temperature"),
    crossed(
        [*((name, None) for name in CONFIGS), ("llama", RISING)],
        product([Forcing.STRICT, Forcing.CANONICAL], [0.0, 1.0]),
    ),
)
def test_looking_up_drafts_changes_no_answer(
    model_and_costs: tuple[str, CostCurve | None], forcing_and_temperature: tuple[Forcing, float]
) -> None:
    """In batches of mixed requests that begin and end at different steps."""
    (architecture, costs), (forcing, temperature) = model_and_costs, forcing_and_temperature
    model = make_model(architecture)
    asked = repeating_requests(forcing, temperature)
    narrow = {"step_tokens": 16, "max_batch": 4}
    plain = answers(make_engine(model, **narrow), asked)
    drafted = answers(make_engine(model, **look_up(costs=costs, **narrow)), asked)
    assert tokens(drafted) == tokens(plain)
    assert calls(drafted) <= calls(plain)
    assert sum(result.usage.drafted_tokens for result in drafted.values()) > 0
    for key, result in drafted.items():
        assert result.usage.forced_tokens == plain[key].usage.forced_tokens
        assert result.finish_reason is plain[key].finish_reason


def test_usage_counts_what_became_of_drafts() -> None:
    asked = repeating_requests(Forcing.CANONICAL, 0.0)
    plain, drafted = answers(make_engine(), asked), answers(make_engine(**look_up()), asked)
    for key, result in drafted.items():
        usage = result.usage
        assert 0 <= usage.accepted_tokens <= usage.drafted_tokens
        assert usage.corrected_calls <= usage.drafted_calls <= usage.model_calls
        # Every call that is saved, a draft has saved.
        assert plain[key].usage.model_calls - usage.model_calls <= usage.accepted_tokens
        assert plain[key].usage.drafted_tokens == plain[key].usage.drafted_calls == 0
    assert sum(result.usage.accepted_tokens for result in drafted.values()) > 0


def test_without_forcing_nothing_is_drafted() -> None:
    asked = repeating_requests(Forcing.OFF, 0.0)
    for result in answers(make_engine(**look_up()), asked).values():
        assert result.usage.drafted_tokens == 0
        assert result.usage.model_calls >= len(result.tokens)


def test_where_tokens_cost_as_much_as_calls_nothing_is_drafted() -> None:
    steep = CostCurve(((1, 0.010), (2, 0.020)))
    asked = repeating_requests(Forcing.CANONICAL, 0.0)
    for result in answers(make_engine(**look_up(costs=steep)), asked).values():
        assert result.usage.drafted_tokens == 0


def test_a_request_is_drafted_alike_whatever_ran_before_it() -> None:
    """Nothing learned of one request is kept for the next: that would leak information.

    Prefixes are not kept here: tokens that need not be computed make other draft sizes pay.
    """
    options = look_up(costs=RISING) | {"reuse_prefixes": False}
    asked = repeating_requests(Forcing.CANONICAL, 1.0)
    key = "zebra x zebra, abcd y abcd"
    # Named, because otherwise it would also depend on the time that drafting takes.
    named = {key: replace(asked[key], drafters=("lookup",))}
    fresh = answers(make_engine(**options), named)[key]
    engine = make_engine(**options)
    answers(engine, asked)
    again = answers(engine, named)[key]
    assert without_times(again.usage) == without_times(fresh.usage)


def without_times(usage: Usage) -> Usage:
    by_drafter = tuple(replace(each, draft_nanoseconds=0) for each in usage.by_drafter)
    return replace(usage, by_drafter=by_drafter, target_nanoseconds=0, mask_nanoseconds=0)


def test_drafts_behind_a_stop_count_as_neither_accepted_nor_sampled() -> None:
    model = make_model()
    request = GenerationRequest(prompt="hello name", max_tokens=30)
    tokens = answers(make_engine(model), {"r": request})["r"].tokens
    known = (*render(request.prompt, None), *tokens)
    texts = [TOKEN_BYTES[token] or b"" for token in tokens]
    stop = next(text.decode("ascii") for text in texts[3:] if text and text.isascii())
    engine = make_engine(model, drafters=(Prophet([known], 0.0),), widest_draft=24)
    stopped = answers(engine, {"r": replace(request, stop=(stop,))})["r"]
    usage = stopped.usage
    assert 0 < usage.accepted_tokens <= usage.sampled_tokens == len(stopped.tokens) < len(tokens)


class Records(OneByOne):
    """Drafts nothing, and records which steps a draft was requested for."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def learn(self, verified: VerifiedStep) -> None:
        self.seen.append(verified.was_drafted)


def test_steps_that_read_a_part_of_the_prompt_are_not_drafted() -> None:
    """Drafters learn so: what an earlier draft cost must not count in these steps."""
    records = Records()
    engine = make_engine(drafters=(records,), widest_draft=8, step_tokens=16)
    request = GenerationRequest(prompt="zebra " * 8, max_tokens=4, drafters=(records.name,))
    engine.submit("a", request)
    results(engine)
    parts = records.seen.index(True)
    assert parts == 2
    assert all(records.seen[parts:])
