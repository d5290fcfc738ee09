"""A matrix of int8 loses nothing but what rounding its own weights loses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from guided.model.cpu import WeightFormat
from guided.model.cpu.int8_avx512 import Int8Avx512
from guided.model.cpu.int8_matrix import MOST_STREAMED, Int8Matrix
from guided.model.cpu.matrix import LargePages
from tests.unit.model.cpu.small_models import rounded_to_int8, skip_unless_able


@pytest.fixture(autouse=True)
def _needs_int8() -> None:
    skip_unless_able(WeightFormat.INT8)


@pytest.mark.parametrize("memory", [None, LargePages()], ids=["oneDNN's", "ours"])
@pytest.mark.parametrize("rows", [1, 2, 17, 130])
@pytest.mark.parametrize(("outputs", "inputs"), [(96, 64), (7, 72), (160, 1536)])
def test_products_are_those_of_the_rounded_weights(
    memory: LargePages | None, rows: int, outputs: int, inputs: int
) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    weight[3] = 0
    numbers = torch.randn(rows, inputs)
    numbers[:, 5] *= 100  # an outlier, beside which one int8 would leave little
    found = Int8Matrix(weight, bias, memory).multiply(numbers.numpy())
    expected = numbers.double() @ rounded_to_int8(weight).double().T + bias
    # A row is right to half a step of its finest, in each of its numbers.
    step = numbers.abs().amax(dim=1, keepdim=True) / 127 / 254
    bound = step / 2 * rounded_to_int8(weight).abs().sum(dim=1) + 1e-5 * expected.abs() + 1e-5
    assert bool(((torch.from_numpy(found) - expected).abs() <= bound).all())


def test_a_row_of_zeros_gives_the_bias() -> None:
    bias = torch.arange(8.0)
    found = Int8Matrix(torch.randn(8, 64), bias).multiply(np.zeros((2, 64), np.float32))
    assert found.tolist() == [bias.tolist()] * 2


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("outputs", "inputs"), [(96, 64), (112, 68), (960, 576), (576, 1536)])
def test_few_rows_have_the_products_of_many_to_the_last_bit(outputs: int, inputs: int) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    if not Int8Avx512.fits(weight):
        pytest.skip("this processor has not the instruction that few rows are multiplied by")
    streaming = Int8Matrix(weight, bias, LargePages())
    numbers = torch.randn(MOST_STREAMED, inputs).numpy()
    expected = Int8Matrix(weight, bias).multiply(numbers)
    for rows in range(1, MOST_STREAMED + 1):
        assert np.array_equal(streaming.multiply(numbers[:rows]), expected[:rows]), f"{rows} rows"


@pytest.mark.parametrize("memory", [None, LargePages()])
def test_a_row_comes_out_the_same_among_others(memory: LargePages | None) -> None:
    torch.manual_seed(0)
    linear = Int8Matrix(torch.randn(96, 576), None, memory)
    numbers = torch.randn(40, 576).numpy()
    together = linear.multiply(numbers)
    for row in range(40):
        assert np.array_equal(linear.multiply(numbers[row : row + 1])[0], together[row])
