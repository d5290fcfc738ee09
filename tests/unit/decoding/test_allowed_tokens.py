"""Few allowed tokens are those of the mask, and many are recognised as such at any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.decoding.allowed_tokens import few_tokens
from guided.masks.mask import mask_of, tokens_of

SIZE = 100


@given(st.sets(st.integers(0, SIZE - 1)))
def test_few_tokens_are_those_of_the_mask(tokens: set[int]) -> None:
    mask = mask_of(SIZE, tokens)
    assert few_tokens(mask, SIZE) == tokens_of(mask).tolist() == sorted(tokens)


@pytest.mark.parametrize("most", [0, 1, 31, 32, 33])
def test_more_than_so_many_are_not_few(most: int) -> None:
    for count in (most, most + 1):
        allowed = np.arange(SIZE - count, SIZE)
        expected = allowed.tolist() if count <= most else None
        assert few_tokens(mask_of(SIZE, allowed), most) == expected
