"""A matrix of int8 loses nothing but what rounding its own weights loses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from guided.model.cpu import WeightFormat
from guided.model.cpu.int8_linear import Int8Linear
from tests.unit.model.cpu.small_models import rounded_to_int8, skip_unless_able


@pytest.fixture(autouse=True)
def _needs_int8() -> None:
    skip_unless_able(WeightFormat.INT8)


@pytest.mark.parametrize("rows", [1, 2, 17, 130])
@pytest.mark.parametrize(("outputs", "inputs"), [(96, 64), (7, 72), (160, 1536)])
def test_products_are_those_of_the_rounded_weights(rows: int, outputs: int, inputs: int) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    weight[3] = 0
    numbers = torch.randn(rows, inputs)
    numbers[:, 5] *= 100  # an outlier, beside which one int8 would leave little
    found = Int8Linear(weight, bias)(numbers.numpy())
    expected = numbers.double() @ rounded_to_int8(weight).double().T + bias
    # A row is right to half a step of its finest, in each of its numbers.
    step = numbers.abs().amax(dim=1, keepdim=True) / 127 / 254
    bound = step / 2 * rounded_to_int8(weight).abs().sum(dim=1) + 1e-5 * expected.abs() + 1e-5
    assert bool(((torch.from_numpy(found) - expected).abs() <= bound).all())


def test_a_row_of_zeros_gives_the_bias() -> None:
    bias = torch.arange(8.0)
    found = Int8Linear(torch.randn(8, 64), bias)(np.zeros((2, 64), np.float32))
    assert found.tolist() == [bias.tolist()] * 2


def test_a_row_comes_out_the_same_among_others() -> None:
    torch.manual_seed(0)
    linear = Int8Linear(torch.randn(96, 576), None)
    numbers = torch.randn(40, 576).numpy()
    together = linear(numbers)
    for row in range(40):
        assert np.array_equal(linear(numbers[row : row + 1])[0], together[row])
