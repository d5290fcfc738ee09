"""Products of few rows are those of the weights as they are kept, whoever computes them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from guided.model.cpu.large_pages import LargePages
from guided.model.cpu.linear import Bf16Linear
from guided.model.cpu.streaming import MOST_STREAMED, Bf16Stream, can_stream


@pytest.fixture(autouse=True)
def _needs_registers() -> None:
    torch.manual_seed(0)
    if not can_stream():
        pytest.skip("this processor has no registers of 64 bytes")


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("rows", range(1, MOST_STREAMED + 1))
@pytest.mark.parametrize(("outputs", "inputs"), [(32, 1), (96, 7), (224, 65), (960, 576)])
def test_products_lose_nothing_but_the_rounding_of_sums(
    rows: int, outputs: int, inputs: int
) -> None:
    weight = torch.randn(outputs, inputs).bfloat16()
    numbers = torch.randn(rows, inputs)
    found = Bf16Stream(weight, LargePages())(numbers.numpy())
    expected = numbers.double() @ weight.double().T
    bound = 1e-6 * (numbers.double().abs() @ weight.double().abs().T)
    assert bool(((torch.from_numpy(found) - expected).abs() <= bound).all())


def test_a_row_comes_out_the_same_among_others() -> None:
    stream = Bf16Stream(torch.randn(96, 576).bfloat16(), LargePages())
    numbers = torch.randn(MOST_STREAMED, 576).numpy()
    together = stream(numbers)
    for row in range(MOST_STREAMED):
        assert np.array_equal(stream(numbers[row : row + 1])[0], together[row])


def test_several_threads_may_multiply_at_once() -> None:
    stream = Bf16Stream(torch.randn(4096, 2048).bfloat16(), LargePages())
    numbers = [torch.randn(rows, 2048).numpy() for rows in (1, 2, 5, 8)]
    # Of either sign by turns, so that memory used before does not hold the answer.
    expected = [(stream(each), stream(-each)) for each in numbers]
    wrong: list[int] = []

    def multiply(place: int) -> None:
        for turn in range(60):
            found = stream(numbers[place] if turn % 2 == 0 else -numbers[place])
            if not np.array_equal(found, expected[place][turn % 2]):
                wrong.append(place)

    threads = [threading.Thread(target=multiply, args=(place,)) for place in range(len(numbers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("outputs", [64, 40])
@pytest.mark.parametrize("rows", [1, MOST_STREAMED, MOST_STREAMED + 1])
def test_few_and_many_rows_have_the_same_products(outputs: int, rows: int) -> None:
    weight, bias = torch.randn(outputs, 64).bfloat16(), torch.randn(outputs).bfloat16()
    numbers = torch.randn(rows, 64).bfloat16().float()  # many rows are rounded to bf16
    found = Bf16Linear(weight, bias, LargePages())(numbers.numpy())
    expected = numbers.double() @ weight.double().T + bias
    assert np.allclose(found, expected.numpy(), rtol=1e-2, atol=1e-2)


def test_pieces_of_memory_are_apart_and_start_at_a_line() -> None:
    memory = LargePages()
    pieces = [memory.take(nbytes) for nbytes in (1, 64, 65, 2**27, 3)]
    assert [len(piece) for piece in pieces] == [1, 64, 65, 2**27, 3]
    assert all(piece.ctypes.data % 64 == 0 for piece in pieces)
    for number, piece in enumerate(pieces):
        piece[:] = number + 1
    assert [(piece.min(), piece.max()) for piece in pieces] == [(n, n) for n in range(1, 6)]
