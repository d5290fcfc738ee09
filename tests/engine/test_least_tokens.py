"""An answer has at least as many tokens as its request says, however it is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from guided.drafters.lookup import LookupDrafter
from guided.errors import RequestError
from guided.masks.least_tokens import LeastTokensMatcher
from guided.masks.mask import tokens_of
from guided.masks.matcher import Matcher
from guided.spec import (
    Beams,
    FinishReason,
    Forcing,
    GenerationRequest,
    GenerationResult,
    Sampling,
    TokenId,
)
from tests.engine import test_reasoning as thoughts
from tests.engine.finite_language import END_IDS, WordMatcher, make_vocabulary
from tests.engine.test_incomplete import ENGINE, run
from tests.engine.tiny_models import make_engine, make_model, words

ENDING = tuple((int(end), 100.0) for end in END_IDS)
"""Makes the model end an answer wherever it may."""
FREE = GenerationRequest("go", max_tokens=24, sampling=Sampling(logit_bias=ENDING))
WORDS = ("", "a", "ab", "abab", "ababna", "abcdname")
HELD = replace(FREE, constraint=words(*WORDS))


def answer(request: GenerationRequest, engine: Any = ENGINE) -> GenerationResult:
    result, _ = run(request, engine)
    assert isinstance(result, GenerationResult), result
    return result


@pytest.mark.parametrize("forcing", Forcing)
@pytest.mark.parametrize("least", [None, 0, 1, 7, 23])
def test_free_text_ends_at_the_first_place_where_it_may(
    least: int | None, forcing: Forcing
) -> None:
    result = answer(replace(FREE, min_tokens=least, forcing=forcing))
    assert (len(result.tokens), result.finish_reason) == (least or 0, FinishReason.STOP)


def test_a_budget_of_as_many_tokens_is_used_up() -> None:
    result = answer(replace(FREE, min_tokens=24))
    assert (len(result.tokens), result.finish_reason) == (24, FinishReason.LENGTH)


@pytest.mark.parametrize("forcing", Forcing)
@pytest.mark.parametrize("least", range(6))
def test_an_answer_ends_early_only_where_its_constraint_is_complete(
    least: int, forcing: Forcing
) -> None:
    result = answer(replace(HELD, min_tokens=least, forcing=forcing))
    assert result.text in WORDS
    goes_on = any(word != result.text and word.startswith(result.text) for word in WORDS)
    assert len(result.tokens) >= least or not goes_on


def test_a_complete_constraint_ends_its_answer() -> None:
    result = answer(replace(FREE, constraint=words("ab"), min_tokens=20))
    assert (result.text, result.finish_reason) == ("ab", FinishReason.COMPLETE)


DRAWN = replace(FREE, prompt="abab abab", sampling=Sampling(1.2, seed=4, logit_bias=ENDING[:1]))


@pytest.mark.parametrize("constraint", [None, words(*WORDS)])
def test_answers_are_the_same_with_drafts(constraint: Any) -> None:
    request = replace(DRAWN, constraint=constraint, min_tokens=9, forcing=Forcing.STRICT)
    drafting = make_engine(
        make_model(), drafters=(LookupDrafter(make_vocabulary()),), widest_draft=12
    )
    plain = answer(replace(request, forcing=Forcing.OFF))
    for engine in (ENGINE, drafting):
        found = answer(request, engine)
        assert (found.tokens, found.finish_reason) == (plain.tokens, plain.finish_reason)


def test_a_stop_string_ends_the_answer_all_the_same() -> None:
    whole = answer(replace(FREE, min_tokens=12))
    letter = next(sign for sign in whole.text if sign.isascii())
    stopped = answer(replace(FREE, min_tokens=12, stop=(letter,)))
    assert stopped.finish_reason is FinishReason.STOP_SEQUENCE


@pytest.mark.parametrize("forcing", Forcing)
def test_stops_count_after_as_many_tokens_as_they_are_told_to(forcing: Forcing) -> None:
    request = replace(FREE, min_tokens=20, forcing=forcing)
    whole = answer(request)
    letter = max(set(whole.text) - {"\ufffd"}, key=whole.text.count)
    spelled = [make_vocabulary().decode(whole.tokens[:count]) for count in range(21)]
    ends = [
        count
        for count in range(1, 21)
        if spelled[count].count(letter.encode()) > spelled[count - 1].count(letter.encode())
    ]
    assert len(ends) > 1
    for after in range(21):
        stopped = answer(replace(request, stop=(letter,), stop_after=after))
        heard = next((count for count in ends if count > after), None)
        if heard is None:
            assert (stopped.tokens, stopped.text) == (whole.tokens, whole.text)
            continue
        assert stopped.tokens == whole.tokens[:heard]
        assert stopped.finish_reason is FinishReason.STOP_SEQUENCE
        assert stopped.text == spelled[heard][
            : spelled[heard].index(letter.encode(), len(spelled[heard - 1]))
        ].decode(errors="replace")


STOP = TokenId(next(i for i, text in enumerate(make_vocabulary().token_bytes) if text == b"a"))
STOPPING = (*((end, 50.0) for end, _ in ENDING), (int(STOP), 100.0))
"""Makes the model write the token wherever it may, and else end the answer."""


@pytest.mark.parametrize("forcing", Forcing)
@pytest.mark.parametrize(("least", "after"), [(20, 0), (20, 1), (20, 9), (9, 9), (0, 3)])
def test_stop_tokens_are_not_written_before_they_count(
    least: int, after: int, forcing: Forcing
) -> None:
    request = replace(FREE, sampling=Sampling(logit_bias=STOPPING), stop_tokens=(STOP,))
    found = answer(replace(request, min_tokens=least, stop_after=after, forcing=forcing))
    if least < after:  # the model's own end is not held back
        assert (found.tokens, found.finish_reason) == ((), FinishReason.STOP)
        return
    assert found.tokens.count(STOP) == 1
    assert (len(found.tokens), found.tokens[-1]) == (after + 1, STOP)
    assert found.finish_reason is FinishReason.STOP_SEQUENCE


@pytest.mark.parametrize("forcing", Forcing)
@pytest.mark.parametrize("after", range(4))
def test_a_stop_token_is_written_where_the_constraint_has_nothing_else(
    after: int, forcing: Forcing
) -> None:
    request = replace(FREE, constraint=words("aaa"), forcing=forcing)
    spelled = answer(request).tokens
    stops = (spelled[0],)
    found = answer(replace(request, stop_tokens=stops, stop_after=after))
    if found.finish_reason is FinishReason.COMPLETE:
        assert found.text == "aaa"
        assert stops[0] not in found.tokens[after:]
    else:
        assert found.tokens.index(stops[0], after) == len(found.tokens) - 1


def test_thoughts_do_not_count() -> None:
    ending = thoughts.biased("<|im_end|>", 100.0) + thoughts.biased("</think>", -100.0)
    request = thoughts.thinking(
        10, constraint=None, min_tokens=12, sampling=Sampling(logit_bias=ending)
    )
    (result,) = thoughts.answered(thoughts.make_engine(), request)
    assert result.reasoning_tokens > 10
    assert len(result.tokens) - result.reasoning_tokens == 12


def _positions(matcher: Matcher, most: int) -> Iterator[Matcher]:
    yield matcher
    if most:
        for token in tokens_of(matcher.mask()).tolist():
            if token not in END_IDS:
                yield from _positions(matcher.advance(TokenId(token)), most - 1)


def test_masks_are_those_of_the_constraint_without_the_end() -> None:
    """Where nothing but the end is allowed, that stays; and the number of tokens decides."""
    start = WordMatcher.of(WORDS)
    assert LeastTokensMatcher.before(start, 0, make_vocabulary()) is start
    seen = 0
    for held in _positions(LeastTokensMatcher.before(start, 3, make_vocabulary()), 3):
        if not isinstance(held, LeastTokensMatcher):
            continue
        seen += 1
        legal = {*tokens_of(held.answer.mask()).tolist()}
        expected = legal - END_IDS or legal
        assert {*tokens_of(held.mask()).tolist()} == expected
        assert held.is_accepting == (not legal - END_IDS)
        assert held.is_complete == held.answer.is_complete
        assert held.held is held.ends
        for token in map(TokenId, range(len(make_vocabulary()))):
            assert held.allows(token) == (token in expected)
        for budget in range(6):
            if held.can_complete_within(budget):
                within = {*tokens_of(held.mask_within(budget)).tolist()}
                fits = {*tokens_of(held.answer.mask_within(budget)).tolist()}
                assert within == (fits - END_IDS or fits)
    assert seen > 5


@pytest.mark.parametrize("least", [0, 2])
@pytest.mark.parametrize("after", [1, 3])
def test_masks_are_without_stop_tokens_too(after: int, least: int) -> None:
    """Whatever else is allowed comes first: other tokens, then ends, then what is held back."""
    vocabulary = make_vocabulary()
    start = WordMatcher.of(WORDS)
    stops = {TokenId(token) for token in tokens_of(start.mask()).tolist()} - END_IDS
    inner = LeastTokensMatcher.before(start, after, vocabulary, stops)
    for held in _positions(LeastTokensMatcher.before(inner, least, vocabulary), 3):
        bare = held
        held_back: list[set[int]] = []
        while isinstance(bare, LeastTokensMatcher):
            held_back.append({*tokens_of(bare.held).tolist()})
            bare = bare.answer
        expected = {*tokens_of(bare.mask()).tolist()}
        for tokens in reversed(held_back):
            expected = expected - tokens or expected
        assert {*tokens_of(held.mask()).tolist()} == expected
        assert held.is_accepting == bool(expected & END_IDS)
        for token in map(TokenId, range(len(vocabulary))):
            assert held.allows(token) == (token in expected)
        for forcing in Forcing:
            assert all(token in expected for token in held.forced_run(forcing)[:1])


def test_what_contradicts_it_is_refused() -> None:
    with pytest.raises(RequestError, match=r"min_tokens 25 is above max_tokens \(24\)") as above:
        replace(FREE, min_tokens=25)
    assert above.value.field == "min_tokens"
    with pytest.raises(RequestError, match="min_tokens -1 is below 0"):
        replace(FREE, min_tokens=-1)
    with pytest.raises(RequestError, match="min_tokens is not known to beams"):
        GenerationRequest("go", min_tokens=2, beams=Beams(2))
