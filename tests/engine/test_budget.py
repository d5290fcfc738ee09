"""Every answer closes inside its budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from guided.decoding import DraftBuilder
from guided.errors import LimitExceededError
from guided.spec import (
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    Sampling,
    TokenId,
)
from tests.engine.drafters import OneByOne
from tests.engine.finite_language import TOKEN_BYTES, WordMatcher
from tests.engine.tiny_models import answers, drain, make_engine, make_model, start, words
from tests.kit.effort import crossed

ENGINE = make_engine(make_model())

TEXTS = {
    "objects": ('{"name":"abcabcabcabc"}', '{"name":"ab"}', '{"me":12}', '{"me":121212121212}'),
    "open": ("12", "1212", "12121212", "121212121212121212"),
    "spelled": ("namename~", "namenamename", "na~na~na~na~"),
}


@pytest.mark.parametrize(("name", "forcing"), crossed(TEXTS, Forcing))
def test_every_budget_from_the_shortest_answer_up_gives_a_whole_answer(
    name: str, forcing: Forcing
) -> None:
    texts = TEXTS[name]
    constraint = words(*texts)
    shortest = len(start(constraint).shortest_completion())
    for max_tokens in range(shortest, shortest + 16):
        requests = {
            str(seed): GenerationRequest(
                prompt="go",
                constraint=constraint,
                max_tokens=max_tokens,
                forcing=forcing,
                sampling=Sampling(temperature=3.0, seed=seed),
            )
            for seed in range(4)
        }
        for result in answers(ENGINE, requests).values():
            assert result.text in texts
            assert len(result.tokens) <= max_tokens
            assert result.usage.output_tokens == len(result.tokens)


@given(data=st.data(), is_careless=st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_language_closes_inside_any_budget(data: st.DataObject, is_careless: bool) -> None:
    """Also if the completions known at neighbouring positions differ arbitrarily."""
    texts = data.draw(st.lists(st.text("abcd12", max_size=8), min_size=1, max_size=6))
    constraint = words(*texts, is_careless=is_careless)
    shortest = len(start(constraint).shortest_completion())
    request = GenerationRequest(
        prompt="go",
        constraint=constraint,
        max_tokens=max(1, shortest + data.draw(st.integers(0, 5))),
        forcing=data.draw(st.sampled_from(Forcing)),
        sampling=Sampling(temperature=2.0, seed=data.draw(st.integers(0, 99))),
    )
    result = answers(ENGINE, {"r": request})["r"]
    assert result.text in texts
    assert len(result.tokens) <= request.most_tokens


def budgeted(
    texts: tuple[str, ...], max_tokens: int, forcing: Forcing = Forcing.OFF
) -> FinishReason:
    request = GenerationRequest(
        prompt="go", constraint=words(*texts), max_tokens=max_tokens, forcing=forcing
    )
    return answers(ENGINE, {"r": request})["r"].finish_reason


def test_the_finish_reason_tells_whether_the_budget_had_a_hand_in_it() -> None:
    """Only the budget keeps the model from "~": a run of 8 does not fit into 7, one choice does."""
    assert budgeted(("~~~~~~~~",), 8) is FinishReason.COMPLETE
    # "~" is chosen again as the completion of 1 token, or was the choice: try both first tokens.
    reasons = {budgeted((first + "~" * 7, second), 7) for first, second in (("y", "z"), ("z", "y"))}
    assert reasons == {FinishReason.COMPLETE, FinishReason.LENGTH_CLOSED}


def test_a_run_that_leaves_no_room_gives_way_to_the_shortest_end() -> None:
    """Longest first, "abcdna" is abc, d, na; the shortest spelling is ab, cdna."""
    spelled = ("abcdna", "abcdna~~~~~~")
    shortest = len(start(words(*spelled)).shortest_completion())
    run = start(words(*spelled)).forced_run(Forcing.CANONICAL)
    assert (len(run), shortest) == (3, 2)
    request = GenerationRequest(
        prompt="go", constraint=words(*spelled), max_tokens=shortest, forcing=Forcing.CANONICAL
    )
    result = answers(ENGINE, {"r": request})["r"]
    assert (result.text, len(result.tokens)) == ("abcdna", shortest)
    assert result.finish_reason is FinishReason.LENGTH_CLOSED
    assert result.usage.forced_tokens == shortest


def test_an_answer_cut_where_it_may_end_was_closed_by_its_length() -> None:
    texts = tuple("~" * n for n in range(3, 40))
    results = [
        answers(
            ENGINE,
            {
                "r": GenerationRequest(
                    prompt="go",
                    constraint=words(*texts),
                    max_tokens=4,
                    sampling=Sampling(temperature=5.0, seed=seed),
                )
            },
        )["r"]
        for seed in range(40)
    ]
    for result in results:
        full = len(result.text) == 4
        assert result.finish_reason is (FinishReason.LENGTH_CLOSED if full else FinishReason.STOP)
    assert {len(result.text) == 4 for result in results} == {True, False}


class LimitedMatcher(WordMatcher):
    """Exceeds a limit when the mask after "ab" is requested."""

    def advance(self, token: TokenId) -> WordMatcher:
        return LimitedMatcher(super().advance(token).rests, is_careless=False)

    def mask(self) -> NDArray[np.int32]:
        if self.rests == {b"12", b"~~~~"}:
            raise LimitExceededError("too many states", limit=7)
        return super().mask()


@pytest.mark.parametrize("forcing", Forcing)
def test_a_limit_passed_on_the_way_closes_the_answer(forcing: Forcing) -> None:
    matcher = LimitedMatcher(frozenset({b"ab12", b"ab~~~~"}), is_careless=False)
    engine = make_engine(start=lambda constraint: matcher)  # noqa: ARG005
    request = GenerationRequest(prompt="go", constraint=words("-"), forcing=forcing)
    result = answers(engine, {"r": request})["r"]
    assert result.text == "ab12"
    assert result.finish_reason is FinishReason.LENGTH_CLOSED


class TiringMatcher(WordMatcher):
    """Exceeds a limit from some call on, at every request but that for its completion."""

    def __init__(self, rests: frozenset[bytes], calls_left: list[int]) -> None:
        super().__init__(rests, is_careless=False)
        self.calls_left = calls_left

    def _tire(self) -> None:
        self.calls_left[0] -= 1
        if self.calls_left[0] < 0:
            raise LimitExceededError("too much work", limit=7)

    def advance(self, token: TokenId) -> WordMatcher:
        self._tire()
        return TiringMatcher(super().advance(token).rests, self.calls_left)

    def mask(self) -> NDArray[np.int32]:
        self._tire()
        return super().mask()

    def can_complete_within(self, budget: int) -> bool:
        self._tire()
        return super().can_complete_within(budget)

    def forced_run(self, forcing: Forcing) -> tuple[TokenId, ...]:
        self._tire()
        return super().forced_run(forcing)


class DraftWhatMayCome(OneByOne):
    def draft(self, tokens: Sequence[TokenId], builder: DraftBuilder) -> None:  # noqa: ARG002
        node: int | None = builder.last_node
        while node is not None and builder.room:
            drafts = (builder.add(node, TokenId(token)) for token in range(2, len(TOKEN_BYTES)))
            node = next((tip for tip in drafts if tip is not None), None)


@pytest.mark.parametrize(("forcing", "widest_draft"), crossed(Forcing, [0, 6]))
def test_a_limit_met_at_any_call_refuses_the_request_or_closes_its_answer(
    forcing: Forcing, widest_draft: int
) -> None:
    model = make_model()
    texts = TEXTS["open"]
    rests = frozenset(text.encode() for text in texts)
    request = GenerationRequest(prompt="go", constraint=words("-"), max_tokens=24, forcing=forcing)
    reasons = set()
    for calls in range(40):
        engine = make_engine(
            model,
            start=lambda _, calls=calls: TiringMatcher(rests, [calls]),
            drafters=(DraftWhatMayCome(),),
            widest_draft=widest_draft,
        )
        try:
            engine.submit("r", request)
        except LimitExceededError:
            continue
        outcome = drain(engine)["r"].outcome
        assert isinstance(outcome, GenerationResult), (calls, outcome)
        assert outcome.text in texts
        reasons.add(outcome.finish_reason)
    assert FinishReason.LENGTH_CLOSED in reasons


def test_a_text_without_a_constraint_ends_with_its_budget() -> None:
    result = answers(ENGINE, {"r": GenerationRequest(prompt="hello name", max_tokens=9)})["r"]
    assert result.finish_reason is FinishReason.LENGTH
    assert len(result.tokens) == result.usage.sampled_tokens == 9


def test_a_budget_below_the_shortest_answer_is_refused_with_both_numbers() -> None:
    request = GenerationRequest(prompt="go", constraint=words("~~~~~"), max_tokens=4)
    with pytest.raises(LimitExceededError) as caught:
        ENGINE.submit("r", request)
    assert str(caught.value) == (
        "max_tokens is 4, but the shortest answer known has 5 tokens; allow at least 5"
    )
    assert (caught.value.limit, caught.value.field) == (4, "max_tokens")
    assert not ENGINE.has_work
