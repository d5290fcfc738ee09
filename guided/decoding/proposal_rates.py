"""How often the proposals of one drafter were right: by level, by rank and by confidence.

A proposal is the likelier to be right the surer its drafter is of it, and the earlier it comes
among those after a node. Further on in a tree the same confidence may be worth less: heads go on
from their own guesses. What was seen at a level is little at first, so its rates start from those
of all levels together, and these from a drafter that is as sure as it should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from guided.decoding.draft_budget import AcceptanceRates

__all__ = ["BINS", "WIDEST", "ProposalKind", "ProposalRates", "assumed_rates", "bin_of"]

BINS: Final = 10
"""Confidence is told in so many equal steps."""
WIDEST: Final = 8
"""Tokens that are drafted after one node, at most."""
_LEVELS: Final = 4
"""Levels that are told apart; deeper ones count as the last."""
_DRAWN_RATE: Final = 0.7
"""Assumed of draws: where all before it were refused, this share of them is taken."""

RankAndBin: TypeAlias = tuple[int, int]


class ProposalKind(NamedTuple):
    """What is told apart."""

    level: int
    """Drafted tokens before it on its path; the runs that they force do not count."""
    rank: int
    """Its place among those proposed after a node. Ranks of drawn tokens follow those of chosen
    ones, as a drawn token is taken the more often the more its law is like the model's, however
    likely the token is."""
    bin: int
    """Of its probability."""


class ProposalRates(AcceptanceRates[ProposalKind]):
    """Those of all sequences of one drafter together."""

    def __init__(self, assumed: Mapping[RankAndBin, float]) -> None:
        super().__init__({})
        self._anywhere = AcceptanceRates[RankAndBin](assumed)

    def rate(self, kind: ProposalKind) -> float:
        """The chance that a proposal of this kind is right where the node before it was."""
        return super().rate(_known(kind))

    def assumed(self, kind: ProposalKind) -> float:
        """What was seen at all levels together."""
        return self._anywhere.rate((kind.rank, kind.bin))

    def add(self, kind: ProposalKind, share: float, *, is_hit: bool) -> None:
        """Note a proposal that the model judged."""
        super().add(_known(kind), share, is_hit=is_hit)
        self._anywhere.add((kind.rank, kind.bin), share, is_hit=is_hit)

    def pass_step(self) -> None:
        """Let what was noted so far count a little less."""
        super().pass_step()
        self._anywhere.pass_step()


def assumed_rates() -> Mapping[RankAndBin, float]:
    """Where rates start from: a drafter that is as sure as it should be."""
    ranks, bins = range(WIDEST), range(BINS)
    chosen = {(rank, bin_): (bin_ + 0.5) / BINS for rank in ranks for bin_ in bins}
    drawn = {
        (WIDEST + rank, bin_): _DRAWN_RATE * (1 - _DRAWN_RATE) ** rank
        for rank in ranks
        for bin_ in bins
    }
    return chosen | drawn


def bin_of(share: float) -> int:
    """The step of confidence that a probability is in."""
    return min(int(share * BINS), BINS - 1)


def _known(kind: ProposalKind) -> ProposalKind:
    return kind if kind.level < _LEVELS else kind._replace(level=_LEVELS - 1)
