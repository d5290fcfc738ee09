"""Batches are cut by sequences into parts of about as many tokens, and come back as one."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from guided.kv.reservation import Reservation, SlotCopies
from guided.model.batch import Segment, StepBatch, StepOutput
from guided.model.parallel.micro_batches import FEWEST_TOKENS, join_outputs, micro_batches
from guided.spec import TokenId


def segment(tokens: int) -> Segment:
    rows = Reservation(0, np.arange(tokens, dtype=np.int64), tokens, SlotCopies.none())
    return Segment(
        reservations=(rows,),
        num_committed=0,
        tokens=tuple(TokenId(n) for n in range(tokens)),
        depths=tuple(range(tokens)),
        ancestors=None,
        nodes_needing_logits=(tokens - 1,),
    )


def widths(tokens: list[int], stages: int) -> list[list[int]]:
    parts = micro_batches(StepBatch(tuple(segment(width) for width in tokens)), stages)
    return [[len(each.tokens) for each in part.segments] for part in parts]


FEW, MANY = FEWEST_TOKENS, 8 * FEWEST_TOKENS


@pytest.mark.parametrize(
    ("tokens", "stages", "expected"),
    [
        ([MANY, MANY], 1, [[MANY, MANY]]),
        ([MANY, MANY], 2, [[MANY], [MANY]]),
        ([MANY, MANY], 4, [[MANY], [MANY]]),
        ([MANY], 2, [[MANY]]),
        ([1] * 8, 2, [[1] * 8]),
        ([FEW, FEW - 1], 2, [[FEW, FEW - 1]]),
        ([FEW, FEW], 2, [[FEW], [FEW]]),
        ([MANY, 1, 1, 1], 2, [[MANY], [1, 1, 1]]),
        ([FEW] * 6, 3, [[FEW] * 2] * 3),
    ],
)
def test_parts_are_as_wide_as_each_other(
    tokens: list[int], stages: int, expected: list[list[int]]
) -> None:
    assert widths(tokens, stages) == expected


def test_parts_are_all_of_the_batch_in_its_order_and_none_is_empty() -> None:
    chance = random.Random(3)
    for _ in range(200):
        tokens = [chance.choice([1, 3, 40, 300]) for _ in range(chance.randint(1, 20))]
        stages = chance.randint(1, 6)
        parts = widths(tokens, stages)
        assert [width for part in parts for width in part] == tokens
        assert all(parts)
        assert len(parts) <= stages


def test_rows_come_back_in_the_order_of_the_batch() -> None:
    """Only the second part needs states."""
    none, some = torch.empty(0, 0), torch.ones(2, 5)
    first = StepOutput(torch.full((1, 3), 1.0), none, none)
    second = StepOutput(torch.full((2, 3), 2.0), some, some[:, :0])
    whole = join_outputs([first, second])
    assert whole.logits.tolist() == [[1.0] * 3, [2.0] * 3, [2.0] * 3]
    assert whole.states.tolist() == some.tolist()
    assert whole.taps.shape == (2, 0)
    assert join_outputs([first]) is first
