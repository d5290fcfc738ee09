"""Options for several answers are checked when a request is made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from guided.decoding.logprobs import ChoiceLogprobs, choice_logprobs, mean_logprob
from guided.errors import RequestError
from guided.spec import Beams, GenerationRequest, Rank, Sampling, TokenId, Verification

WARM = Sampling(temperature=1.0)


@pytest.mark.parametrize(
    ("options", "complaint", "field"),
    [
        ({"n": 0}, "n 0 is below 1", "n"),
        ({"n": 2, "best_of": 1, "sampling": WARM}, "best_of 1 is below n (2)", "best_of"),
        (
            {"n": 2},
            "2 answers of temperature 0 are all the same; set a temperature, or ask for beams",
            "sampling.temperature",
        ),
        (
            {"best_of": 3},
            "3 answers of temperature 0 are all the same; set a temperature, or ask for beams",
            "sampling.temperature",
        ),
        (
            {"best_of": 3, "sampling": Sampling(top_k=4, penalty_alpha=0.6)},
            "contrastive search gives one answer, not 3; leave penalty_alpha out, or ask for one "
            "answer",
            "sampling.penalty_alpha",
        ),
        (
            {"n": 3, "sampling": WARM, "rank": Rank.REWARD},
            "rank 'reward' needs best_of, which says among how many answers",
            "rank",
        ),
        (
            {"n": 4, "beams": Beams(3)},
            "n 4 is above the width of the beams (3); widen the beams, or ask for fewer",
            "n",
        ),
        (
            {"best_of": 2, "beams": Beams(3)},
            "best_of ranks answers that are drawn, and beams draw none; leave it out; the answers "
            "of beams are the best first",
            "best_of",
        ),
        (
            {"beams": Beams(3), "verification": Verification.TYPICAL},
            "verification 'typical' does not apply to beams, where nothing is guessed; leave it or "
            "beams out",
            "verification",
        ),
        (
            {
                "sampling": Sampling(top_k=4, penalty_alpha=0.6),
                "verification": Verification.REJECTION,
            },
            "verification 'rejection' does not apply to contrastive search, where nothing is "
            "guessed; leave it or contrastive search out",
            "verification",
        ),
        (
            {"beams": Beams(3), "sampling": WARM},
            "temperature does not apply to beams, which keep the likeliest beginnings; leave it "
            "out, or draw answers with n and best_of",
            "sampling.temperature",
        ),
        (
            {"beams": Beams(3), "sampling": Sampling(seed=1)},
            "seed does not apply to beams, which keep the likeliest beginnings; leave it out, or "
            "draw answers with n and best_of",
            "sampling.seed",
        ),
        (
            {"beams": Beams(3), "stop": ("x",)},
            "stop is not known to beams; leave it or the beams out",
            "stop",
        ),
        (
            {"beams": Beams(3), "stop_tokens": (TokenId(3),)},
            "stop_tokens is not known to beams; leave it or the beams out",
            "stop_tokens",
        ),
        (
            {"beams": Beams(3), "top_logprobs": 0},
            "top_logprobs is not known to beams; leave it or the beams out",
            "top_logprobs",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(
    options: dict[str, Any], complaint: str, field: str
) -> None:
    with pytest.raises(RequestError) as caught:
        GenerationRequest("x", **options)
    assert (str(caught.value), caught.value.field) == (complaint, field)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Beams(0), "width 0 is below 1"),
        (lambda: Beams(2.5), "width 2.5 is not an integer"),  # type: ignore[arg-type]
        (lambda: Beams(True), "width True is not an integer"),
        (
            lambda: Beams(2, early_stopping="yes"),  # type: ignore[arg-type]
            "early_stopping 'yes' is not True or False",
        ),
        (lambda: Beams(2, 10.5), "length_penalty 10.5 is not between -10 and 10"),
        (lambda: Beams(2, math.nan), "length_penalty nan is not between -10 and 10"),
    ],
)
def test_beams_out_of_range_are_refused(make: Any, complaint: str) -> None:
    with pytest.raises(RequestError) as caught:
        make()
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("options", "drawn", "has_candidates"),
    [
        ({}, 1, False),
        ({"best_of": 1}, 1, True),
        ({"n": 3, "sampling": WARM}, 3, True),
        ({"n": 2, "best_of": 5, "sampling": WARM}, 5, True),
        ({"n": 2, "beams": Beams(2)}, 2, True),
    ],
)
def test_how_many_are_made(options: dict[str, Any], drawn: int, has_candidates: bool) -> None:
    request = GenerationRequest("x", **options)
    assert (request.drawn, request.has_candidates) == (drawn, has_candidates)


def test_a_token_without_an_alternative_is_no_part_of_the_mean() -> None:
    choices = [
        ChoiceLogprobs(raw=-1.0, masked=-0.5, is_only=False, top=()),
        ChoiceLogprobs(raw=-9.0, masked=0.0, is_only=True, top=()),
        ChoiceLogprobs(raw=-3.0, masked=-2.0, is_only=False, top=()),
    ]
    assert mean_logprob(choices) == -2.0
    assert mean_logprob(choices[1:2]) == 0.0


def test_a_choice_that_is_all_but_certain_is_still_a_choice() -> None:
    logits = np.array([25.0, -12.0, 30.0], dtype=np.float32)
    of_two = choice_logprobs(logits, np.array([0b011], dtype=np.int32), TokenId(0), top=0)
    of_one = choice_logprobs(logits, np.array([0b001], dtype=np.int32), TokenId(0), top=0)
    assert of_two.masked == of_one.masked == 0.0
    assert mean_logprob([of_two]) == of_two.raw < -5
    assert mean_logprob([of_one]) == 0.0
