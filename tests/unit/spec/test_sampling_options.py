"""Sampling, stops and log-probabilities are checked when a request is made."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest

from guided.errors import LimitExceededError, RequestError
from guided.spec import GenerationRequest, Sampling, TokenId

NAN = math.nan

SHARES = [0.0, -0.1, 1.1, NAN]
CUTOFFS = [0.0, 1.0, -1e-9, NAN]


@pytest.mark.parametrize(
    ("name", "values", "complaint"),
    [
        ("temperature", [-0.1, 100.5, NAN], "is not between 0 and 100"),
        ("top_k", [0, -1], "is below 1"),
        ("top_p", SHARES, "is not above 0 and at most 1"),
        ("min_p", SHARES, "is not above 0 and at most 1"),
        ("typical_p", SHARES, "is not above 0 and at most 1"),
        ("epsilon_cutoff", CUTOFFS, "is not above 0 and below 1"),
        ("eta_cutoff", CUTOFFS, "is not above 0 and below 1"),
        ("repetition_penalty", [0.0, 1e-310, 0.009, 100.1, NAN], "is not between 0.01 and 100"),
        ("presence_penalty", [-2.1, 2.1, NAN], "is not between -2 and 2"),
        ("frequency_penalty", [-2.1, 2.1, NAN], "is not between -2 and 2"),
        ("no_repeat_ngram_size", [0, -3], "is below 1"),
        ("penalty_alpha", [-0.1, 1.1, NAN], "is not between 0 and 1"),
        ("seed", [-1, 2**63], "is not between 0 and 2**63 - 1"),
    ],
)
def test_a_value_out_of_range_is_refused_by_the_name_of_its_field(
    name: str, values: list[float], complaint: str
) -> None:
    for value in values:
        with pytest.raises(RequestError) as caught:
            Sampling(**cast("dict[str, Any]", {name: value}))
        assert str(caught.value) == f"{name} {value!r} {complaint}"
        assert caught.value.field == f"sampling.{name}"


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": 100.0, "top_k": 1, "top_p": 1.0, "min_p": 1.0, "typical_p": 1.0},
        {"presence_penalty": -2.0, "frequency_penalty": 2.0, "repetition_penalty": 100.0},
        {"repetition_penalty": 0.01},
        {"no_repeat_ngram_size": 1, "logit_bias": ((0, -100.0), (1, 100.0))},
    ],
)
def test_the_ends_of_the_ranges_are_allowed(options: dict[str, Any]) -> None:
    Sampling(**options)


@pytest.mark.parametrize(
    ("options", "complaint", "field"),
    [
        (
            {},
            "penalty_alpha needs top_k, the number of tokens to choose among; 4 to 10 are usual",
            "sampling.top_k",
        ),
        *(
            (
                {"top_k": 4, name: value},
                f"{name} {value!r} does not apply to contrastive search, which draws nothing; "
                "leave it or penalty_alpha out",
                f"sampling.{name}",
            )
            for name, value in (
                ("temperature", 0.5),
                ("top_p", 0.9),
                ("min_p", 0.1),
                ("typical_p", 0.9),
                ("epsilon_cutoff", 0.1),
                ("eta_cutoff", 0.1),
            )
        ),
    ],
)
def test_what_does_not_go_with_contrastive_search_is_refused(
    options: dict[str, Any], complaint: str, field: str
) -> None:
    with pytest.raises(RequestError) as caught:
        Sampling(penalty_alpha=0.6, **options)
    assert (str(caught.value), caught.value.field) == (complaint, field)


def test_contrastive_search_goes_with_bias_and_penalties() -> None:
    sampling = Sampling(top_k=4, penalty_alpha=0.0, repetition_penalty=1.2, seed=3)
    assert (sampling.is_contrastive, sampling.num_candidate_tokens) == (True, 4)
    assert (Sampling(top_k=4).is_contrastive, Sampling(top_k=4).num_candidate_tokens) == (False, 0)


@pytest.mark.parametrize(
    ("bias", "complaint"),
    [
        (((5, 100.1),), "logit_bias 100.1 of token 5 is not between -100 and 100"),
        (((5, NAN),), "logit_bias nan of token 5 is not between -100 and 100"),
        (((5, 1.0), (6, 1.0), (5, 2.0)), "logit_bias names token 5 twice"),
        (((-1, 1.0),), "logit_bias names token -1, below 0"),
    ],
)
def test_a_wrong_bias_is_refused(bias: Any, complaint: str) -> None:
    with pytest.raises(RequestError) as caught:
        Sampling(logit_bias=bias)
    assert (str(caught.value), caught.value.field) == (complaint, "sampling.logit_bias")


def test_too_many_biases_are_refused() -> None:
    with pytest.raises(LimitExceededError, match="has 1025 tokens, above the limit of 1024"):
        Sampling(logit_bias=tuple((token, 1.0) for token in range(1025)))


def test_the_order_of_biases_says_nothing() -> None:
    assert Sampling(logit_bias=((7, 1.0), (3, 2.0))) == Sampling(logit_bias=((3, 2.0), (7, 1.0)))


@pytest.mark.parametrize(
    ("sampling", "adjusts", "reads", "filters"),
    [
        (Sampling(), False, False, False),
        (Sampling(temperature=1.0, seed=3), False, False, False),
        (Sampling(logit_bias=((1, 1.0),)), True, False, False),
        (Sampling(repetition_penalty=1.1), True, True, False),
        (Sampling(presence_penalty=0.1), True, True, False),
        (Sampling(frequency_penalty=0.1), True, True, False),
        (Sampling(no_repeat_ngram_size=3), True, True, False),
        (Sampling(top_k=3), False, False, True),
        (Sampling(top_p=0.3), False, False, True),
        (Sampling(min_p=0.3), False, False, True),
        (Sampling(typical_p=0.3), False, False, True),
        (Sampling(epsilon_cutoff=0.3), False, False, True),
        (Sampling(eta_cutoff=0.3), False, False, True),
    ],
)
def test_what_is_off_costs_nothing(
    sampling: Sampling, adjusts: bool, reads: bool, filters: bool
) -> None:
    found = (sampling.adjusts_logits, sampling.reads_history, sampling.filters)
    assert found == (adjusts, reads, filters)


@pytest.mark.parametrize(
    ("options", "kind", "complaint", "field"),
    [
        ({"stop": ("a", "")}, RequestError, "a stop string is empty", "stop"),
        (
            {"stop": ("a", "b\ud800")},
            RequestError,
            "stop string 'b\\ud800' holds a surrogate, which is half of a character",
            "stop",
        ),
        (
            {"stop": tuple(map(str, range(65)))},
            LimitExceededError,
            "stop holds 65, above the limit of 64",
            "stop",
        ),
        (
            {"stop_tokens": tuple(map(TokenId, range(65)))},
            LimitExceededError,
            "stop_tokens holds 65, above the limit of 64",
            "stop_tokens",
        ),
        (
            {"stop_tokens": (TokenId(-1),)},
            RequestError,
            "stop token -1 is below 0",
            "stop_tokens",
        ),
        (
            {"include_stop": True},
            RequestError,
            "include_stop needs stop or stop_tokens",
            "include_stop",
        ),
        (
            {"stop_after": 0},
            RequestError,
            "stop_after needs stop or stop_tokens",
            "stop_after",
        ),
        (
            {"stop_after": -1, "stop": ("a",)},
            RequestError,
            "stop_after -1 is below 0",
            "stop_after",
        ),
        (
            {"top_logprobs": 21},
            RequestError,
            "top_logprobs 21 is not between 0 and 20",
            "top_logprobs",
        ),
        (
            {"top_logprobs": -1},
            RequestError,
            "top_logprobs -1 is not between 0 and 20",
            "top_logprobs",
        ),
    ],
)
def test_a_wrong_stop_or_count_is_refused(
    options: dict[str, Any], kind: type[RequestError], complaint: str, field: str
) -> None:
    with pytest.raises(RequestError) as caught:
        GenerationRequest("x", **options)
    assert type(caught.value) is kind
    assert (str(caught.value), caught.value.field) == (complaint, field)
