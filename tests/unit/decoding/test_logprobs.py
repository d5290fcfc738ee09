"""Log-probabilities are those of the softmax over the vocabulary and over the mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from guided.decoding.logprobs import choice_logprobs
from guided.spec import TokenId
from tests.engine.finite_language import TOKEN_BYTES, pack

ALLOWED = [3, 40, 41, 99, 200]


def test_raw_and_masked_are_log_softmaxes_of_the_whole_row_and_of_the_mask() -> None:
    for seed in range(20):
        row = np.random.default_rng(seed).normal(0, 4, len(TOKEN_BYTES)).astype(np.float32)
        whole = torch.from_numpy(row).double().log_softmax(0)
        masked = torch.full_like(whole, -torch.inf)
        masked[ALLOWED] = torch.from_numpy(row).double()[ALLOWED]
        masked = masked.log_softmax(0)
        token = TokenId(ALLOWED[seed % 5])
        found = choice_logprobs(row, pack(ALLOWED), token, top=3)
        assert found.raw == pytest.approx(float(whole[token]))
        assert found.masked == pytest.approx(float(masked[token]))
        values, ids = masked.topk(3)
        assert [token for token, _, _ in found.top] == ids.tolist()
        assert [m for _, _, m in found.top] == pytest.approx(values.tolist())
        assert [r for _, r, _ in found.top] == pytest.approx(whole[ids].tolist())


def test_no_more_alternatives_are_told_than_are_allowed() -> None:
    row = np.zeros(len(TOKEN_BYTES), dtype=np.float32)
    assert len(choice_logprobs(row, pack(ALLOWED), TokenId(3), top=9).top) == 5
    assert choice_logprobs(row, pack(ALLOWED), TokenId(3), top=0).top == ()


def test_a_lone_token_has_all_of_the_masked_probability() -> None:
    row = np.zeros(len(TOKEN_BYTES), dtype=np.float32)
    found = choice_logprobs(row, pack([7]), TokenId(7), top=1)
    assert found.masked == 0.0
    assert found.raw == pytest.approx(-np.log(len(TOKEN_BYTES)))


def test_what_the_model_thinks_impossible_has_an_infinite_logarithm() -> None:
    row = np.full(len(TOKEN_BYTES), -np.inf, dtype=np.float32)
    found = choice_logprobs(row, pack(ALLOWED), TokenId(40), top=1)
    assert (found.raw, found.masked) == (-np.inf, -np.inf)
