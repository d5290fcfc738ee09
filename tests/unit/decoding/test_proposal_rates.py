"""Rates of proposals are those of their level, which start from those of all levels."""

from __future__ import annotations

import pytest

from guided.decoding import ProposalRates, assumed_rates
from guided.decoding.proposal_rates import ProposalKind, bin_of


def kind(level: int, share: float = 0.75, rank: int = 0) -> ProposalKind:
    return ProposalKind(level, rank, bin_of(share))


def seen(hits: dict[int, bool], steps: int = 60) -> ProposalRates:
    """Rates of a drafter whose first proposals of a level were always right, or never."""
    rates = ProposalRates(assumed_rates())
    for _ in range(steps):
        rates.pass_step()
        for level, is_hit in hits.items():
            rates.add(kind(level), 1.0, is_hit=is_hit)
    return rates


@pytest.mark.parametrize("level", [0, 2, 9])
@pytest.mark.parametrize("share", [0.03, 0.5, 1.0])
def test_a_drafter_is_taken_to_be_as_sure_as_it_should_be(level: int, share: float) -> None:
    rate = ProposalRates(assumed_rates()).rate(kind(level, share))
    assert rate == pytest.approx(share, abs=0.051)


def test_a_level_has_a_rate_of_its_own() -> None:
    rates = seen({0: True, 2: False})
    assert rates.rate(kind(0)) > 0.9
    assert rates.rate(kind(2)) < 0.1
    # Of the level between nothing was seen, so it is taken to be as the others are together.
    assert rates.rate(kind(1)) == pytest.approx(0.5, abs=0.05)


def test_levels_of_which_little_is_known_follow_the_others() -> None:
    for is_hit, expected in ((True, 1.0), (False, 0.0)):
        rates = seen({0: is_hit})
        assert rates.rate(kind(1)) == pytest.approx(expected, abs=0.1)
        assert rates.rate(kind(1, rank=1)) == ProposalRates(assumed_rates()).rate(kind(1, rank=1))


def test_levels_far_from_the_root_are_one() -> None:
    rates = seen({0: True, 7: False})
    assert rates.rate(kind(3)) == rates.rate(kind(12)) < 0.1
    assert rates.rate(kind(2)) > 0.3
