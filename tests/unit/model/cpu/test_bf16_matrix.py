"""Products by pairs are those of rows and weights in bf16, however many rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional

from guided.model.cpu.bf16_matrix import Bf16Matrix
from guided.model.cpu.formats import bf16_kernel
from guided.model.cpu.instructions import InstructionSet, best_instructions
from guided.model.cpu.matrix import LargePages

_SHAPES = [(32, 32), (33, 5), (160, 72), (960, 576), (576, 1536)]


Make = Callable[[torch.Tensor, torch.Tensor | None], Bf16Matrix]


@pytest.fixture
def linear(instruction_set: InstructionSet) -> Make:
    """Makes matrices for the kernel of an instruction set."""
    torch.manual_seed(0)
    assert best_instructions() is instruction_set
    return partial(Bf16Matrix, memory=LargePages(), kernel=bf16_kernel())


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("rows", [1, 12, 13, 16, 17, 33, 130])
@pytest.mark.parametrize(("outputs", "inputs"), _SHAPES)
def test_products_lose_nothing_but_the_rounding_of_rows_where_rows_are_rounded(
    linear: Make, rows: int, outputs: int, inputs: int
) -> None:
    weight, bias = torch.randn(outputs, inputs).bfloat16(), torch.randn(outputs).bfloat16()
    numbers = torch.randn(rows, inputs)
    found = linear(weight, bias).multiply(numbers.numpy())
    rounded = (numbers.bfloat16() if bf16_kernel().rounds else numbers).double()
    expected = rounded @ weight.double().T + bias
    bound = 1e-6 * (rounded.abs() @ weight.double().abs().T + 1)
    assert bool(((torch.from_numpy(found) - expected).abs() <= bound).all())


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("outputs", "inputs"), _SHAPES)
def test_a_row_comes_out_the_same_to_the_last_bit_in_any_call(
    linear: Make, outputs: int, inputs: int
) -> None:
    """So an answer does not depend on how its tokens are divided into calls."""
    matrix = linear(torch.randn(outputs, inputs), None)
    numbers = torch.randn(70, inputs).numpy()
    together = matrix.multiply(numbers)
    for rows in (1, 2, 7, 16, 17, 48, 69):
        for first in range(0, len(numbers), rows):
            its_rows = numbers[first : first + rows]
            assert np.array_equal(matrix.multiply(its_rows), together[first : first + rows]), (
                f"{rows} rows"
            )


def test_no_rows_have_no_products(linear: Make) -> None:
    matrix = linear(torch.randn(64, 64), None)
    assert matrix.multiply(np.empty((0, 64), np.float32)).shape == (0, 64)


def test_what_is_not_a_number_stays_so(linear: Make) -> None:
    matrix = linear(torch.randn(64, 64), None)
    numbers = np.ones((2, 64), np.float32)
    numbers[0, 3] = np.nan
    found = matrix.multiply(numbers)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


@pytest.mark.usefixtures("threads")
def test_products_of_onednn_stay_right_beside(linear: Make) -> None:
    """oneDNN configures the tiles of the same threads for itself."""
    weight, numbers = torch.randn(256, 256).bfloat16(), torch.randn(64, 256)
    matrix = linear(weight, None)
    theirs, ours = functional.linear(numbers.bfloat16(), weight), matrix.multiply(numbers.numpy())
    for _ in range(3):
        assert torch.equal(functional.linear(numbers.bfloat16(), weight), theirs)
        assert np.array_equal(matrix.multiply(numbers.numpy()), ours)


def test_several_threads_may_multiply_at_once(linear: Make) -> None:
    matrix = linear(torch.randn(4096, 2048), None)
    numbers = [torch.randn(rows, 2048).numpy() for rows in (1, 2, 5, 8)]
    # Of alternating sign, so that reused memory does not hold the answer.
    expected = [(matrix.multiply(each), matrix.multiply(-each)) for each in numbers]
    wrong: list[int] = []

    def multiply(place: int) -> None:
        for turn in range(60):
            found = matrix.multiply(numbers[place] if turn % 2 == 0 else -numbers[place])
            if not np.array_equal(found, expected[place][turn % 2]):
                wrong.append(place)

    threads = [threading.Thread(target=multiply, args=(place,)) for place in range(len(numbers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
