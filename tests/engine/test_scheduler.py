"""A plan fits its budget, lets everyone move and serves the shortest first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guided.engine.scheduler import share_tokens


@pytest.mark.parametrize(
    ("pending", "step_tokens", "counts"),
    [
        ([], 8, ()),
        ([1, 700, 3], 512, (1, 508, 3)),
        ([700, 600], 512, (1, 511)),
        ([5], 8, (5,)),
        ([20], 8, (8,)),
        ([4, 4, 4], 3, (1, 1, 1)),
    ],
)
def test_a_plan_shares_the_tokens_of_a_step(
    pending: list[int], step_tokens: int, counts: tuple[int, ...]
) -> None:
    assert share_tokens(pending, step_tokens) == list(counts)


@given(st.lists(st.integers(1, 50), max_size=8), st.integers(8, 60))
def test_a_plan_wastes_nothing_and_starves_nobody(pending: list[int], step_tokens: int) -> None:
    counts = share_tokens(pending, step_tokens)
    assert all(1 <= count <= wanted for count, wanted in zip(counts, pending, strict=True))
    assert sum(counts) == min(step_tokens, sum(pending))
