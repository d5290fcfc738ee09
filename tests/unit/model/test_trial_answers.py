"""The first part of a trial that differs is reported; irrelevant differences are not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from guided.model.trial import FIRST, SHARED, TRIAL_TOKENS, Own
from guided.model.trial_answers import first_difference, rounding


def answers(dtype: torch.dtype = torch.float32) -> Own:
    torch.manual_seed(0)
    main, side, beside = torch.randn(3, TRIAL_TOKENS, 50).to(dtype)
    return Own(main, side[SHARED:], beside)


def spoilt(own: Own, part: str, row: int, by: float = 0.5) -> Own:
    rows: torch.Tensor = getattr(own, part).clone()
    rows[row, 0] += by
    return replace(own, **{part: rows})


PLACES = [
    ("main", 0, None, "at the beginning of a text"),
    ("main", 4, None, "at the beginning of a text"),
    ("main", 4, 3, "beyond its sliding window"),
    ("beside", 11, None, "where another text is in the same call"),
    ("main", FIRST, None, "where a text is cut into calls"),
    ("main", SHARED, 3, "in a tree of guesses"),
    ("side", 0, None, "in a tree of guesses"),
    ("side", 2, None, "in a tree of guesses"),
]


@pytest.mark.parametrize(("part", "row", "window", "where"), PLACES)
def test_a_difference_is_told_by_its_place(
    part: str, row: int, window: int | None, where: str
) -> None:
    own = answers()
    found = first_difference(own, spoilt(own, part, row), window)
    assert found is not None
    assert found.where == where
    assert found.size == pytest.approx(0.5 / 7, rel=0.3)


def test_of_several_places_the_most_basic_is_told() -> None:
    own = answers()
    ours = spoilt(spoilt(own, "side", 0), "beside", 3)
    found = first_difference(own, ours, None)
    assert found is not None
    assert found.where == "where another text is in the same call"


@pytest.mark.parametrize(
    ("dtype", "by", "differs"),
    [
        (torch.float64, 1e-3, True),
        (torch.float32, 1e-3, False),
        (torch.float32, 0.02, True),
        (torch.float32, float("nan"), True),
        (torch.float32, float("inf"), True),
    ],
)
def test_how_close_is_close_enough(dtype: torch.dtype, by: float, differs: bool) -> None:
    own = answers(dtype)
    assert (first_difference(own, spoilt(own, "main", 2, by), None) is not None) == differs


def test_with_16_bits_one_token_may_go_to_another_expert_but_not_all_of_a_part() -> None:
    own = answers(torch.bfloat16)
    one = spoilt(own, "beside", 5, by=3.0)
    assert first_difference(own, one, None) is None
    every = replace(own, beside=own.beside.flip(1))
    assert first_difference(own, every, None) is not None


@pytest.mark.parametrize(
    ("dtype", "by", "rounded", "differs"),
    [
        (torch.bfloat16, 0.15, 0.0, True),
        (torch.bfloat16, 0.15, 0.08, False),
        (torch.bfloat16, 3.0, 0.5, True),
    ],
)
def test_a_model_may_differ_by_what_it_makes_of_rounding(
    dtype: torch.dtype, by: float, rounded: float, differs: bool
) -> None:
    own = answers(dtype)
    noise = torch.randn(own.main.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    spread = own.main.float().std()
    ours = replace(own, main=own.main + noise * by * spread)
    assert (first_difference(own, ours, None, rounding=rounded) is not None) == differs


def test_rounding_is_that_of_the_part_that_differs_most() -> None:
    own = answers(torch.bfloat16)
    assert rounding(own, own) == 0.0
    assert rounding(own, replace(own, beside=own.beside * -1)) == pytest.approx(2.0, rel=0.1)


def test_a_constant_changes_nothing_and_neither_do_logits_that_are_never_chosen() -> None:
    own = answers()
    assert first_difference(own, replace(own, main=own.main + 3), None) is None
    for name in ("main", "side", "beside"):
        getattr(own, name)[:, 7] = float("-inf")
    assert first_difference(own, replace(own), None) is None
    finite = replace(own, main=own.main.clone())
    finite.main[:, 7] = 0.0
    assert first_difference(own, finite, None) is not None


def test_logits_that_are_no_numbers_are_no_answer() -> None:
    own = answers()
    own.main[3] = float("nan")
    assert first_difference(own, own, None) is not None
