"""Products of weights in blocks are those of their numbers, the same on any processor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from guided.model.cpu import stored_kernel
from guided.model.cpu.block_types import BLOCK_TYPES
from guided.model.cpu.instructions import InstructionSet, available
from guided.model.cpu.matrix import LargePages
from guided.model.cpu.stored_kernel import STORED_FORMS, instructions_here, multiply_stored
from guided.model.cpu.stored_matrix import StoredMatrix, StoredPart
from tests.kit.effort import crossed, is_long
from tests.kit.gguf_blocks import dequantised, random_blocks

FORMS = [each for each in STORED_FORMS if each in available()]
OUTPUTS, INPUTS = 40, 768  # two blocks of 16 and one that is not full


@pytest.fixture
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use kernels that multiply up to two rows at once: a tenth of the code and compile time.

    The same loop writes the code for more rows. The long form uses the real kernels.
    """
    if not is_long():
        monkeypatch.setattr(stored_kernel, "_AT_ONCE", dict.fromkeys(STORED_FORMS, 2))
    multiply_stored.cache_clear()
    yield
    multiply_stored.cache_clear()


def part(
    kind: str,
    packed: NDArray[np.uint8],
    instructions: InstructionSet | None = None,
    piece: int = 16,
) -> StoredPart:
    return StoredPart.of_blocks(
        BLOCK_TYPES[kind], packed, LargePages(), instructions or instructions_here(), piece=piece
    )


def rows(count: int, width: int = INPUTS) -> NDArray[np.float32]:
    found = np.random.default_rng(1).standard_normal((count, width)).astype(np.float32)
    found[:, 5] *= 100  # an outlier
    found[:, 64:96] = 0
    return found


@pytest.mark.usefixtures("two_at_once")
@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_products_are_those_of_the_numbers(kind: str) -> None:
    """The same on all instruction sets, to the last bit."""
    packed, numbers = random_blocks(kind, OUTPUTS, INPUTS), rows(11)
    first, *others = (StoredMatrix([part(kind, packed, each)]).multiply(numbers) for each in FORMS)
    assert_products(first, kind, packed, numbers)
    assert all(np.array_equal(first, other) for other in others)


def assert_products(
    found: NDArray[np.float32], kind: str, packed: NDArray[np.uint8], numbers: NDArray[np.float32]
) -> None:
    weights = dequantised(kind, packed).astype(np.float64)
    expected = numbers.astype(np.float64) @ weights.T
    # Half a step in each number of a row, and roundings of float32 where numbers cancel out.
    cells = np.abs(numbers).reshape(len(numbers), -1, 32).max(axis=-1, keepdims=True)
    step = cells / (32639 if kind == "Q8_0" else 127)
    steps = np.broadcast_to(step / 2, (*cells.shape[:2], 32)).reshape(numbers.shape)
    span = np.abs(numbers).astype(np.float64) @ span_of(kind, packed).T
    assert found.dtype == np.float32
    assert (np.abs(found - expected) <= steps @ np.abs(weights).T + 1e-6 * span).all()


def span_of(kind: str, packed: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The largest possible parts of a weight: code times scale, least number."""
    codes = BLOCK_TYPES[kind].codes(packed)
    largest = codes._replace(codes=np.full_like(codes.codes, 2**codes.form.bits - 1))
    smallest = codes._replace(codes=np.zeros_like(codes.codes))
    found: NDArray[np.float64] = np.maximum(
        np.abs(largest.numbers()), np.abs(smallest.numbers())
    ).astype(np.float64)
    return found


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("instructions", "kind"), crossed(FORMS, ["Q4_0", "Q4_1", "Q6_K", "Q8_0"]))
def test_a_row_comes_out_the_same_among_others(kind: str, instructions: InstructionSet) -> None:
    packed, numbers = random_blocks(kind, 208, INPUTS), rows(19)
    matrix = StoredMatrix([part(kind, packed, instructions)])
    together = matrix.multiply(numbers)
    assert_products(together, kind, packed, numbers)
    for begin in range(19):
        for end in range(begin + 1, 20):
            cut = matrix.multiply(numbers[begin:end])
            assert np.array_equal(cut, together[begin:end]), f"rows {begin} to {end}"


@pytest.mark.usefixtures("two_at_once")
def test_parts_of_several_types_stand_side_by_side() -> None:
    kinds = {"Q4_K": 40, "Q6_K": 16, "Q8_0": 7, "Q4_1": 32}
    packed = {kind: random_blocks(kind, outputs, INPUTS) for kind, outputs in kinds.items()}
    bias, numbers = np.arange(95, dtype=np.float32), rows(3)
    matrix = StoredMatrix([part(kind, each) for kind, each in packed.items()], bias)
    alone = [StoredMatrix([part(kind, each)]).multiply(numbers) for kind, each in packed.items()]
    assert np.array_equal(matrix.multiply(numbers), np.concatenate(alone, axis=1) + bias)


@pytest.mark.usefixtures("two_at_once")
def test_a_matrix_unpacked_in_pieces_is_the_same() -> None:
    packed, numbers = random_blocks("Q5_K", 100, INPUTS), rows(2)
    whole, pieces = (
        StoredMatrix([part("Q5_K", packed, piece=piece)]).multiply(numbers) for piece in (112, 32)
    )
    assert np.array_equal(whole, pieces)


@pytest.mark.parametrize("instructions", FORMS)
@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_codes_are_read_back_as_they_came(kind: str, instructions: InstructionSet) -> None:
    packed, wanted = random_blocks(kind, OUTPUTS, INPUTS), np.array([39, 0, 17, 17, 31])
    matrix = part(kind, packed, instructions)
    assert np.array_equal(matrix.codes(wanted).numbers(), dequantised(kind, packed[wanted]))


@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_it_takes_little_more_than_the_file(kind: str) -> None:
    packed = random_blocks(kind, 64, INPUTS)
    assert StoredMatrix([part(kind, packed)]).nbytes <= 1.2 * packed.nbytes


@pytest.mark.usefixtures("two_at_once")
@pytest.mark.parametrize("instructions", FORMS)
@pytest.mark.parametrize("extreme", [1e-38, 1e30])
def test_the_largest_codes_and_rows_do_not_overflow(
    extreme: float, instructions: InstructionSet
) -> None:
    packed = random_blocks("Q8_0", 16, 64)
    packed.reshape(16, 2, 34)[..., 2:] = 0x80  # -128
    numbers = np.full((1, 64), extreme, np.float32)
    expected = numbers.astype(np.float64) @ dequantised("Q8_0", packed).astype(np.float64).T
    found = StoredMatrix([part("Q8_0", packed, instructions)]).multiply(numbers)
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-30)


@pytest.mark.usefixtures("two_at_once")
@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_sums_of_the_largest_codes_and_steps_have_room(kind: str) -> None:
    packed = random_blocks(kind, 16, 256)
    blocks = packed.view(BLOCK_TYPES[kind].fields)
    for name in {"low", "high"}.intersection(blocks.dtype.names or ()):
        blocks[name] = 127 if kind == "Q8_0" else 255
    numbers = np.ones((2, 256), np.float32) * np.array([[1], [-1]], np.float32)
    for each in FORMS:
        found = StoredMatrix([part(kind, packed, each)]).multiply(numbers)
        assert_products(found, kind, packed, numbers)


@pytest.mark.usefixtures("two_at_once")
@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_what_is_no_number_stays_so(broken: float) -> None:
    matrix = StoredMatrix([part("Q4_1", random_blocks("Q4_1", 16, INPUTS))])
    numbers = rows(2)
    numbers[1, 7] = broken
    found = matrix.multiply(numbers)
    assert np.isfinite(found[0]).all()
    assert not np.isfinite(found[1]).any()


def test_scales_that_are_no_numbers_are_refused() -> None:
    packed = random_blocks("Q4_0", 16, 64)
    packed[3, :2] = np.array([np.inf], "<f2").view(np.uint8)
    with pytest.raises(ValueError, match="a scale of output 3 is not finite"):
        part("Q4_0", packed)


@pytest.mark.usefixtures("two_at_once")
def test_no_rows_give_no_products() -> None:
    matrix = StoredMatrix([part("Q4_0", random_blocks("Q4_0", 16, 64))])
    assert matrix.multiply(np.empty((0, 64), np.float32)).shape == (0, 16)
