"""Blocks of GGUF files hold the numbers that the format's own library reads from them."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from guided.model.cpu.block_types import BLOCK_TYPES
from tests.kit.gguf_blocks import dequantised, random_blocks


@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_codes_are_the_numbers_of_the_library(kind: str) -> None:
    packed = random_blocks(kind, 5, 768)
    assert np.array_equal(BLOCK_TYPES[kind].codes(packed).numbers(), dequantised(kind, packed))


@pytest.mark.parametrize("kind", BLOCK_TYPES)
def test_a_block_is_as_large_as_in_the_format(kind: str) -> None:
    numbers, nbytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    block = BLOCK_TYPES[kind]
    assert (block.form.span, block.fields.itemsize) == (numbers, nbytes)
