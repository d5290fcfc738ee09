"""Four bits lose as little as codes of four bits can."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from guided.model.cpu import int4_matrix
from guided.model.cpu.instructions import InstructionSet, available
from guided.model.cpu.int4_matrix import Int4Matrix, round_to_int4, round_to_int8
from guided.model.cpu.matrix import LargePages
from guided.model.cpu.stored_kernel import STORED_FORMS
from guided.model.cpu.stored_matrix import NotFiniteError


def test_searched_scales_lose_less_than_the_plain_range() -> None:
    weights = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    groups = weights.reshape(64, -1, 32)
    low, high = groups.min(axis=-1, keepdims=True), groups.max(axis=-1, keepdims=True)
    plain = ((groups - low) / (high - low) * 15).round() * (high - low) / 15 + low
    searched = round_to_int4(weights).numbers()
    ratio = np.square(searched - weights).sum() / np.square(plain - groups).sum()
    assert ratio < 0.9


def test_weights_of_sixteen_even_steps_are_kept() -> None:
    steps = np.tile(np.arange(16, dtype=np.float32), (3, 4)) * 0.5 - 2
    assert np.array_equal(round_to_int4(steps).numbers(), steps)


def test_a_group_of_one_number_is_kept() -> None:
    weights = np.repeat(np.array([[0.25, 0, -3]], np.float32), 32, axis=1)
    assert np.array_equal(round_to_int4(weights).numbers(), weights)


def test_a_head_is_rounded_to_eight_bits() -> None:
    weights = np.random.default_rng(0).standard_normal((40, 64)).astype(np.float32)
    weights[3, 32:] = 0
    largest = np.abs(weights).reshape(40, 2, 32).max(axis=-1).repeat(32, axis=1)
    off = np.abs(round_to_int8(weights).numbers() - weights)
    # Half a step, and the loss of the largest code by a scale of 16 bits.
    assert (off <= largest / 127 / 2 + largest * 2**-11).all()


@pytest.mark.parametrize("is_head", [False, True])
def test_products_are_those_of_the_rounded_weights(is_head: bool) -> None:
    torch.manual_seed(0)
    weight, bias, rows = torch.randn(40, 72), torch.randn(40), torch.randn(5, 72)
    found = Int4Matrix(weight, bias, LargePages(), is_head=is_head).multiply(rows.numpy())
    to_codes = round_to_int8 if is_head else round_to_int4
    rounded = to_codes(np.pad(weight.numpy(), ((0, 0), (0, 24)))).numbers()[:, :72]
    expected = rows.numpy().astype(np.float64) @ rounded.T.astype(np.float64) + bias.numpy()
    half_a_step = np.abs(rows.numpy()).max() / 127 / 2
    assert (np.abs(found - expected) <= half_a_step * np.abs(rounded).sum(axis=1) + 1e-5).all()


@pytest.mark.parametrize("is_head", [False, True])
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf, 1e7, -3e38])
@pytest.mark.parametrize("instructions", [each for each in STORED_FORMS if each in available()])
def test_weights_that_no_code_stands_for_are_refused(
    broken: float, instructions: InstructionSet, is_head: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int4_matrix, "instructions_here", lambda: instructions)
    weight = torch.ones(2000, 40)
    weight[1999, 33] = broken  # of the last piece that is rounded
    with pytest.raises(NotFiniteError, match="a scale of output 1999 is not finite"):
        Int4Matrix(weight, None, LargePages(), is_head=is_head)
