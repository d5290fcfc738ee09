"""Single numbers inside kernels agree with numpy's and torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from guided.model.cpu.instructions import InstructionSet, has
from guided.model.cpu.kernel import kernel
from guided.model.cpu.numbers import exponential, farthest, narrow


@kernel
def exponentials(numbers: Any, output: Any) -> None:
    for i in range(len(numbers)):
        output[i] = exponential(numbers[i])


@kernel
def narrow_each(numbers: Any, output: Any) -> None:
    for i in range(len(numbers)):
        output[i] = narrow(numbers[i], output[i])


@kernel
def find_farthest(numbers: Any, output: Any) -> None:
    output[0] = farthest(numbers)


def test_the_exponential_is_right_to_the_last_bits() -> None:
    numbers = np.linspace(-59.9, 80, 100_001).astype(np.float32)
    found = np.empty_like(numbers)
    exponentials(numbers, found)
    bound = 5e-7 if has(InstructionSet.AVX2) else 5e-6
    np.testing.assert_allclose(found, np.exp(numbers.astype(np.float64)), rtol=bound)


def test_the_exponential_of_very_low_numbers_is_nothing_at_all() -> None:
    found = np.ones(3, np.float32)
    exponentials(np.array([-60.0, -1e4, -1e30], np.float32), found)
    assert found.tolist() == [0, 0, 0]


def test_bf16_rounds_as_torch_does() -> None:
    numbers = torch.randn(10_000) * torch.logspace(-30, 30, 10_000)
    numbers[:4] = torch.tensor(
        [0.0, 1.00390625, 1.01171875, -1.00390625]
    )  # the last three are ties
    found = np.empty(10_000, np.uint16)
    narrow_each(numbers.numpy(), found)
    expected = numbers.bfloat16()
    assert np.array_equal(found, expected.view(torch.uint16).numpy())


def test_no_nan_becomes_a_number_in_bf16() -> None:
    """A part of a file that is all ones is NaN, too."""
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32)
    found = np.empty(len(bits), np.uint16)
    narrow_each(bits.view(np.float32), found)
    assert bool(torch.from_numpy(found).view(torch.bfloat16).isnan().all())


@pytest.mark.parametrize("numbers", [[-3.0, -1.5, -8.0], [2.0, -9.0, 9.5], [0.0, -0.0], [-1e-30]])
def test_the_farthest_of_any_sign(numbers: list[float]) -> None:
    found = np.empty(1, np.float32)
    find_farthest(np.array(numbers, np.float32), found)
    assert found[0] == np.float32(max(map(abs, numbers)))
