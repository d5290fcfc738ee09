"""Rejection sampling: proposals are tried in turn, and the choice has the model's distribution.

A proposal ``x`` that was drawn from a distribution ``q`` is accepted with probability
``min(1, p(x) / q(x))`` if the choice is to have the distribution ``p``. If it is rejected, the
residual is the part of ``p`` above ``q``, and the next proposal is tried against that::

    p  ──try x₁ of q₁──▶  norm(max(p - q₁, 0))  ──try x₂ of q₂──▶  ...  ──▶  draw from what is left

For one proposal this is speculative sampling (Leviathan et al., arXiv:2211.17192), for several the
multi-step scheme of SpecInfer (arXiv:2305.09781, section on multi-step speculative sampling). The
proof is in docs/verification.md. It requires that whether to draw, and from which distribution, is
settled before the draw, and that no draw is left out because of what was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from guided.decoding.sampling import uniform
from guided.decoding.token_distribution import TokenDistribution
from guided.spec import TokenId

__all__ = ["Proposal", "choose_by_rejection"]

_ACCEPT: Final = 0x243F6A8885A308D3
_RESIDUAL: Final = 0x13198A2E03707344
"""The purpose of a random number, so that no two purposes share one; digits of pi."""


class Proposal(NamedTuple):
    """A token that was proposed at a node."""

    token: TokenId
    distribution: TokenDistribution | None
    """What it was drawn from; ``None`` if it was not drawn, but follows from what was known."""


def choose_by_rejection(
    distribution: TokenDistribution, proposals: Sequence[Proposal], *, seed: int, position: int
) -> TokenId:
    """Draw a token from this distribution, one of the proposals where possible.

    The random numbers are hashes of (seed, position, purpose, try), and independent of those that
    the proposals were drawn with.
    """
    for number, (token, drawn_from) in enumerate(proposals):
        # A token that was not drawn would always have been proposed: its distribution has it alone.
        proposed = 1.0 if drawn_from is None else drawn_from.probability(token)
        if uniform(seed, position, _ACCEPT, number) * proposed < distribution.probability(token):
            return token
        if drawn_from is None:
            residual = distribution.without([token])
        else:
            residual = distribution.subtract(drawn_from)
        # Nothing is left only where both distributions are equal but for rounding.
        distribution = distribution if residual is None else residual
    return distribution.draw(uniform(seed, position, _RESIDUAL))
