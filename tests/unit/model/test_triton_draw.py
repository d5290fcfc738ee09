"""Tokens drawn by the kernel are those chosen on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from guided.decoding.device_draw import DeviceDraw
from guided.decoding.sampling import choose_token, noise_stream
from guided.masks.mask import mask_of
from guided.model.device_draws import DeviceDraws
from guided.spec import Sampling
from tests.kit.cuda import HAS_CUDA

pytest.importorskip("triton", reason="triton is not installed")

DEVICE = torch.device("cuda" if HAS_CUDA else "cpu")
VOCABULARY = 5000
"""More than two chunks of the kernel."""


def draw(
    logits: torch.Tensor, allowed: list[list[int]], temperature: float, seed: int
) -> tuple[int | None, ...]:
    draws = DeviceDraws(DEVICE, VOCABULARY)
    wanted = [
        DeviceDraw(mask_of(VOCABULARY, tokens), temperature, noise_stream(seed, position))
        for position, tokens in enumerate(allowed)
    ]
    return draws.draw(logits.to(DEVICE), wanted)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 1.7]),
    share=st.sampled_from([0.001, 0.1, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    rows=st.integers(1, 5),
)
def test_what_is_drawn_is_what_the_cpu_chooses(
    seed: int, temperature: float, share: float, dtype: torch.dtype, rows: int
) -> None:
    numbers = np.random.default_rng(seed)
    logits = torch.from_numpy(numbers.normal(0, 3, (rows, VOCABULARY)).astype(np.float32)).to(dtype)
    allowed = [
        np.flatnonzero(numbers.random(VOCABULARY) < share).tolist() or [4999] for _ in logits
    ]
    found = draw(logits, allowed, temperature, seed)
    assert found == tuple(
        choose_token(
            row,
            mask_of(VOCABULARY, tokens),
            Sampling(temperature),
            seed=seed,
            position=position,
        )
        for position, (row, tokens) in enumerate(zip(logits.float().numpy(), allowed, strict=True))
    )


def test_of_equal_logits_the_first_allowed_is_taken() -> None:
    logits = torch.zeros(3, VOCABULARY)
    logits[1, 2] = -0.0
    assert draw(logits, [[4500, 77], [3, 2], [4999]], 0.0, 0) == (77, 2, 4999)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("logit", "allowed", "found"),
    [
        (float("nan"), [7, 9], None),
        (float("inf"), [7, 9], None),
        (float("nan"), [9], 9),
        (float("inf"), [9], 9),
        (float("-inf"), [7, 9], 9),
        (float("-inf"), [7], None),
        (0.0, [], None),
    ],
)
def test_what_is_no_number_is_left_to_the_cpu(
    logit: float, allowed: list[int], found: int | None, temperature: float
) -> None:
    logits = torch.zeros(1, VOCABULARY)
    logits[0, 7] = logit
    assert draw(logits, [allowed], temperature, 1) == (found,)


def test_rows_that_nobody_draws_from_are_left_out() -> None:
    logits = torch.zeros(3, VOCABULARY)
    logits[2, 8] = 1.0
    wanted = [
        None,
        DeviceDraw(mask_of(VOCABULARY, [4, 6]), 0.0, 0),
        DeviceDraw(mask_of(VOCABULARY, [7, 8]), 0.0, 0),
    ]
    draws = DeviceDraws(DEVICE, VOCABULARY)
    assert draws.draw(logits.to(DEVICE), wanted) == (None, 4, 8)
    assert draws.draw(logits.to(DEVICE), [None] * 3) == (None,) * 3
