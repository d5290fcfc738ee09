"""Compares acceptance by coupled draws and by rejection: `python -m benchmarks.acceptance`.

A target has logits for 200 tokens, and a drafter has other logits. Each line is a kind of drafter;
the same logits and seeds are verified both ways, by the code that the engine runs:

common      what both distributions have in common: 1 less their total variation distance
coupled     a token is drafted with the noise that the target draws with; it stays if it is the same
rejection   a token is drawn with other noise, and stays with probability min(1, p / q)
of 3        the same with three drafted tokens side by side
length      tokens accepted in a row, of a chain of four, mean

For one token the first three are also computed exactly: rejection accepts what the distributions
have in common, and coupling accepts the sum over tokens of 1 / sum over others of max(p'/p, q'/q).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from guided.decoding import Proposal, TokenDistribution, choose_by_rejection
from guided.decoding.sampling import gumbel_noise, uniform
from guided.spec import TokenId

Logits: TypeAlias = NDArray[np.float64]

SIZE: Final = 200
CHAIN: Final = 4
TOKENS: Final = np.arange(SIZE, dtype=np.int64)
DRAFT_SEED: Final = 1 << 40
"""Added to a seed for the noise of drafts that are drawn."""


class Pair(NamedTuple):
    """The distributions of target and drafter at one place."""

    target: TokenDistribution
    drafter: TokenDistribution

    @classmethod
    def of(cls, target: Logits, drafter: Logits) -> Pair:
        return cls(
            TokenDistribution.from_scores(TOKENS, target),
            TokenDistribution.from_scores(TOKENS, drafter),
        )


Kind: TypeAlias = Callable[[np.random.Generator], Pair]


def noisy(spread: float, noise: float) -> Kind:
    """Return a kind of drafter that knows the target's logits up to some noise."""

    def draw(draws: np.random.Generator) -> Pair:
        target = draws.normal(0, spread, SIZE)
        return Pair.of(target, target + draws.normal(0, noise, SIZE))

    return draw


def tempered(factor: float) -> Kind:
    """Return a kind of drafter with the right order, but too sure or not sure enough of it."""

    def draw(draws: np.random.Generator) -> Pair:
        target = draws.normal(0, 3.0, SIZE)
        return Pair.of(target, factor * target)

    return draw


def two_tokens(draws: np.random.Generator) -> Pair:
    """Draw two tokens, half and half for the target, 9 to 1 for the drafter."""
    target = np.full(SIZE, -40.0)
    first, second = draws.choice(SIZE, 2, replace=False)
    target[[first, second]] = 0.0
    drafter = target.copy()
    drafter[first] = np.log(9.0)
    return Pair.of(target, drafter)


KINDS: Mapping[str, Kind] = {
    "the same": noisy(3.0, 0.0),
    "close": noisy(3.0, 0.5),
    "fair": noisy(3.0, 1.0),
    "far": noisy(3.0, 2.5),
    "close, undecided target": noisy(1.0, 0.5),
    "too sure": tempered(1.6),
    "not sure enough": tempered(0.6),
    "two tokens, 9 to 1": two_tokens,
}


def common(pair: Pair) -> float:
    """Return what the distributions have in common, which is what rejection accepts of one draw."""
    return float(np.minimum(pair.target.probabilities, pair.drafter.probabilities).sum())


def coupled_chance(pair: Pair) -> float:
    """Return the probability that the same noise gives both the same token."""
    kept = (pair.target.probabilities > 0) & (pair.drafter.probabilities > 0)
    p, q = pair.target.probabilities, pair.drafter.probabilities
    ratios = np.maximum(p[None, :] / p[kept, None], q[None, :] / q[kept, None])
    return float((1 / ratios.sum(axis=1)).sum())


def best(distribution: TokenDistribution, noise: NDArray[np.float64], count: int) -> list[TokenId]:
    """Return the tokens with the largest sums of score and noise."""
    with np.errstate(divide="ignore"):
        sums = np.log(distribution.probabilities) + noise
    return [TokenId(int(token)) for token in np.argsort(-sums)[:count]]


def coupled(pair: Pair, seed: int, position: int, width: int) -> bool:
    """Whether one of ``width`` tokens drafted with the target's noise is its choice."""
    noise = gumbel_noise(TOKENS, seed=seed, position=position)
    (choice,) = best(pair.target, noise, 1)
    return choice in best(pair.drafter, noise, width)


def rejection(pair: Pair, seed: int, position: int, width: int) -> bool:
    """Whether one of ``width`` tokens drawn from the drafter's distribution is accepted."""
    proposals: list[Proposal] = []
    distribution: TokenDistribution | None = pair.drafter
    for number in range(width):
        if distribution is None:
            break
        token = distribution.draw(uniform(seed + DRAFT_SEED, position, number))
        proposals.append(Proposal(token, distribution))
        distribution = distribution.without([token])
    choice = choose_by_rejection(pair.target, proposals, seed=seed, position=position)
    return choice in [proposal.token for proposal in proposals]


def measure(kind: Kind, rounds: int) -> list[float]:
    """Return the columns of the table for one kind of drafter."""
    draws = np.random.default_rng(0)
    rows = []
    for seed in range(rounds):
        chain = [kind(draws) for _ in range(CHAIN)]
        first = chain[0]
        row = [common(first), coupled_chance(first)]
        for accepts in (coupled, rejection):
            stays = [accepts(pair, seed, place, 1) for place, pair in enumerate(chain)]
            length = stays.index(False) if False in stays else CHAIN
            row += [stays[0], accepts(first, seed, 0, 3), length]
        rows.append(row)
    return [float(mean) for mean in np.array(rows, dtype=np.float64).mean(axis=0)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Acceptance of coupled draws and of rejection.")
    parser.add_argument(
        "--rounds", type=int, default=4000, help="pairs of distributions of each kind"
    )
    rounds = parser.parse_args().rounds
    table = Table(title=f"{rounds} chains of {CHAIN} places, {SIZE} tokens")
    for heading in ("drafter", "common", "coupled, computed"):
        table.add_column(heading)
    for way in ("coupled", "rejection"):
        for heading in (way, f"{way}, of 3", f"{way}, length"):
            table.add_column(heading)
    for name, kind in KINDS.items():
        table.add_row(name, *(f"{value:.3f}" for value in measure(kind, rounds)))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
