"""A matrix of int8 loses only the rounding of its own weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from guided.model.cpu.formats import Pack, WeightFormat, matrix_packer
from guided.model.cpu.instructions import InstructionSet, best_instructions
from tests.unit.model.cpu.rounding import rounded_to_int8

_SHAPES = [(96, 64), (7, 72), (13, 5), (112, 68), (960, 576), (576, 1536)]


@pytest.fixture
def pack(instruction_set: InstructionSet) -> Pack:
    """Makes matrices for the kernel of an instruction set."""
    torch.manual_seed(0)
    assert best_instructions() is instruction_set
    return matrix_packer(WeightFormat.INT8)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("rows", [1, 2, 7, 17, 130])
@pytest.mark.parametrize(("outputs", "inputs"), _SHAPES)
def test_products_are_those_of_the_rounded_weights(
    pack: Pack, rows: int, outputs: int, inputs: int
) -> None:
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    weight[3] = 0
    numbers = torch.randn(rows, inputs)
    numbers[:, 4] *= 100  # an outlier, beside which one int8 would leave little
    found = pack(weight, bias).multiply(numbers.numpy())
    expected = numbers.double() @ rounded_to_int8(weight).double().T + bias
    # A row is right to half of its finest step, in each of its numbers.
    step = numbers.abs().amax(dim=1, keepdim=True) / 127 / 255
    bound = step / 2 * rounded_to_int8(weight).abs().sum(dim=1) + 1e-5 * expected.abs() + 1e-5
    assert bool(((torch.from_numpy(found) - expected).abs() <= bound).all())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_products_do_not_overflow(pack: Pack, sign: float) -> None:
    """Sums of bytes saturate at 16 bits in some instructions, and those of words at 32."""
    inputs = 4096
    found = pack(torch.ones(32, inputs), None).multiply(np.full((2, inputs), sign, np.float32))
    np.testing.assert_allclose(found, sign * inputs, rtol=1e-4)


def test_a_row_of_zeros_gives_the_bias(pack: Pack) -> None:
    bias = torch.arange(8.0)
    found = pack(torch.randn(8, 64), bias).multiply(np.zeros((2, 64), np.float32))
    assert found.tolist() == [bias.tolist()] * 2


def test_no_rows_have_no_products(pack: Pack) -> None:
    matrix = pack(torch.randn(64, 64), None)
    assert matrix.multiply(np.empty((0, 64), np.float32)).shape == (0, 64)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("outputs", "inputs"), _SHAPES)
def test_a_row_comes_out_the_same_to_the_last_bit_in_any_call(
    pack: Pack, outputs: int, inputs: int
) -> None:
    """So an answer does not depend on how its tokens are divided into calls."""
    matrix = pack(torch.randn(outputs, inputs), torch.randn(outputs))
    numbers = torch.randn(40, inputs).numpy()
    together = matrix.multiply(numbers)
    for rows in (1, 2, 5, 6, 7, 13, 17):
        for first in range(0, len(numbers), rows):
            its_rows = numbers[first : first + rows]
            assert np.array_equal(matrix.multiply(its_rows), together[first : first + rows]), (
                f"{rows} rows"
            )
