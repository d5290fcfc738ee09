"""Answers with very many log-probabilities are encoded beside the loop that serves everybody."""

from __future__ import annotations

import asyncio
import threading

import pytest

from guided.spec import (
    CandidateResult,
    FinishReason,
    GenerationResult,
    TokenId,
    TokenLogprobs,
    Usage,
)
from guided_service.large_answers import encode_answer

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

    given, thread = asyncio.run(encode_answer(encode, result))
    assert given is result
    assert (thread != threading.get_ident()) == in_thread


@pytest.mark.parametrize(("num_scored", "in_thread"), [(20, False), (8_000, True)])
def test_so_does_a_long_one_of_several_that_ends_by_itself(
    num_scored: int, in_thread: bool
) -> None:
    (one,) = answer(0, num_scored).candidates

    def encode(given: CandidateResult) -> tuple[CandidateResult, int]:
        return given, threading.get_ident()

    given, thread = asyncio.run(encode_answer(encode, one))
    assert given is one
    assert (thread != threading.get_ident()) == in_thread
