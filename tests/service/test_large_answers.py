"""Answers with very many log-probabilities are encoded beside the loop that serves everybody."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from guided.errors import LimitExceededError
from guided.spec import (
    Alternative,
    CandidateResult,
    FinishReason,
    GenerationRequest,
    GenerationResult,
    Sampling,
    TokenId,
    TokenLogprobs,
    Usage,
)
from guided_service.admission import OverloadedError
from guided_service.held_bytes import HeldBytes
from guided_service.large_answers import check_answers_fit, encoded_answer, scored_bytes
from guided_service.object_sizes import memory_of

_SCORED = TokenLogprobs(TokenId(0), b"a", -0.5, -0.5)


def answer(num_scored: int, *of_candidates: int) -> GenerationResult:
    """An answer with so many log-probabilities, and candidates with as many."""
    return GenerationResult(
        "a",
        (),
        FinishReason.STOP,
        Usage(),
        0.0,
        logprobs=(_SCORED,) * num_scored,
        candidates=tuple(
            CandidateResult(index, "a", (), FinishReason.STOP, 0.0, logprobs=(_SCORED,) * count)
            for index, count in enumerate(of_candidates)
        ),
    )


@pytest.mark.parametrize(
    ("result", "in_thread"),
    [
        (answer(0), False),
        (answer(20), False),
        (answer(20, 20, 20), False),
        (answer(8_000), True),
        (answer(0, 150, 150), True),
    ],
)
def test_only_long_answers_go_to_a_thread(result: GenerationResult, in_thread: bool) -> None:
    def encode(given: GenerationResult) -> tuple[GenerationResult, int]:
        return given, threading.get_ident()

    async def use() -> tuple[GenerationResult, int]:
        async with encoded_answer(encode, result) as encoded:
            return encoded

    given, thread = asyncio.run(use())
    assert given is result
    assert (thread != threading.get_ident()) == in_thread


@pytest.mark.parametrize(("num_scored", "in_thread"), [(20, False), (8_000, True)])
def test_so_does_a_long_one_of_several_that_ends_by_itself(
    num_scored: int, in_thread: bool
) -> None:
    (one,) = answer(0, num_scored).candidates

    def encode(given: CandidateResult) -> tuple[CandidateResult, int]:
        return given, threading.get_ident()

    async def use() -> tuple[CandidateResult, int]:
        with HeldBytes(2**24).of_call("ann"):
            async with encoded_answer(encode, one) as encoded:
                return encoded

    given, thread = asyncio.run(use())
    assert given is one
    assert (thread != threading.get_ident()) == in_thread


_TOP = replace(_SCORED, top=(Alternative(TokenId(0), b"a", -0.5, -0.5),) * 20)


def test_a_long_answer_counts_while_it_is_encoded_and_until_it_is_sent() -> None:
    async def use() -> None:
        held = HeldBytes(2**24)
        long, nbytes = replace(answer(0), logprobs=(_TOP,) * 300), 300 * 21 * 512

        def encode(_: GenerationResult) -> int:
            return held.nbytes

        with held.of_call("ann"):
            async with encoded_answer(encode, long) as while_encoding:
                assert (while_encoding, held.nbytes) == (nbytes, nbytes)
            assert held.nbytes == 0
            async with encoded_answer(encode, answer(20)) as while_encoding:
                assert (while_encoding, held.nbytes) == (0, 0)

    asyncio.run(use())


def test_candidates_of_an_answer_count_once() -> None:
    """The log-probabilities of a result with candidates are those of the first one."""
    several = answer(300, 300, 300)
    assert scored_bytes(several) == 2 * 300 * 512


def test_a_long_answer_without_room_is_not_encoded() -> None:
    async def use() -> None:
        held = HeldBytes(2**23)
        long = replace(answer(0), logprobs=(_TOP,) * 300)

        def refuse(_: GenerationResult) -> None:
            raise AssertionError("encoded without room")

        with held.of_call("bob") as other:
            other.add(2**22)
            with held.of_call("ann"), pytest.raises(OverloadedError):
                async with encoded_answer(refuse, long):
                    pass
        assert held.nbytes == 0

    asyncio.run(use())


def test_an_answer_that_outlives_its_call_is_given_back_once() -> None:
    """Another call may wait for an answer that the first call requested."""

    async def use() -> None:
        held = HeldBytes(2**24)
        with held.of_call("ann") as hold:
            hold.add(1000)
        hold.add(500)
        hold.let_go(500)
        assert held.nbytes == 0

    asyncio.run(use())


def test_what_an_answer_counts_is_about_what_it_takes() -> None:
    long = replace(answer(0), logprobs=(_TOP,) * 300)
    assert 0.2 < memory_of(long) / (300 * 21 * 512) < 1


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 2**20},
        {"max_tokens": 12_000, "top_logprobs": 20},
        {"top_logprobs": 20, "n": 16, "sampling": Sampling(1.0), "default_max_tokens": 700},
    ],
)
def test_answers_that_could_be_held_are_let_in(options: dict[str, Any]) -> None:
    check_answers_fit(GenerationRequest("x", **options), 2**20, 2**27)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"max_tokens": 20_000, "top_logprobs": 20},
            "1 x 20000 tokens with top_logprobs 20 may take 215040000 bytes",
        ),
        (
            {"top_logprobs": 0, "n": 2, "best_of": 64, "default_max_tokens": 5_000},
            "64 x 5000 tokens with top_logprobs 0 may take 163840000 bytes",
        ),
    ],
)
def test_answers_that_could_never_be_held_are_refused(options: dict[str, Any], told: str) -> None:
    request = GenerationRequest("x", sampling=Sampling(1.0), **options)
    with pytest.raises(LimitExceededError) as caught:
        check_answers_fit(request, 2**20, 2**27)
    assert str(caught.value) == (
        f"the log-probabilities of {told}, above the limit of 134217728; lower max_tokens, "
        "top_logprobs or the number of answers"
    )
    assert caught.value.field == "max_tokens"
