"""Filters on a distribution: which tokens stay to draw from.

Each is a function of scores, logarithms of weights up to a constant (``[n]``), and of its own
parameter; it returns the indices that stay, ascending, at least one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from guided.spec.sampling import Sampling

__all__ = [
    "epsilon_cutoff",
    "eta_cutoff",
    "filter_tokens",
    "log_softmax",
    "min_p",
    "smallest_indices",
    "top_k",
    "top_p",
    "typical_p",
]

Scores: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

_HEAD: Final = 1024
"""How many tokens are searched for a least set before more are sorted."""


def filter_tokens(scores: Scores, sampling: Sampling) -> Indices:
    """Return the indices that all filters leave, each applied to what the one before it left."""
    # Indices refer to the scores of the last filter, so they are mapped back to all scores.
    kept: Indices | None = None
    for keep in _filters(sampling):
        kept = keep(scores) if kept is None else kept[keep(scores[kept])]
    return np.arange(len(scores)) if kept is None else kept


def _filters(sampling: Sampling) -> Iterator[Callable[[Scores], Indices]]:
    """Return the filters that a request wants, in the fixed order in which they are applied."""
    if sampling.top_k is not None:
        yield partial(top_k, k=sampling.top_k)
    if sampling.top_p is not None:
        yield partial(top_p, p=sampling.top_p)
    if sampling.min_p is not None:
        yield partial(min_p, p=sampling.min_p)
    if sampling.typical_p is not None:
        yield partial(typical_p, p=sampling.typical_p)
    if sampling.epsilon_cutoff is not None:
        yield partial(epsilon_cutoff, epsilon=sampling.epsilon_cutoff)
    if sampling.eta_cutoff is not None:
        yield partial(eta_cutoff, eta=sampling.eta_cutoff)


def top_k(scores: Scores, k: int) -> Indices:
    """Keep the k likeliest; of equals at the edge the lower index stays."""
    return np.sort(smallest_indices(-scores, k))


def top_p(scores: Scores, p: float) -> Indices:
    """Keep the fewest likeliest whose sum reaches p; of equals the lower index stays."""
    if p >= 1.0:
        return np.arange(len(scores))
    return np.sort(_find_fewest_reaching(-scores, scores, p))


def min_p(scores: Scores, p: float) -> Indices:
    """Keep scores at least p times as likely as the likeliest."""
    # Scores are logarithms, so a ratio of probabilities is a difference.
    return np.flatnonzero(scores >= scores.max() + np.log(p))


def typical_p(scores: Scores, p: float) -> Indices:
    """Keep the fewest that reach p, taking those first whose surprise is nearest to the entropy.

    All that are as near as the last of them stay as well.
    """
    if p >= 1.0:
        return np.arange(len(scores))
    logarithms = log_softmax(scores)
    # Surprise is -log p; its mean is the entropy.
    distances = np.abs(-logarithms - _entropy(logarithms))
    furthest = _find_fewest_reaching(distances, scores, p)[-1]
    return np.flatnonzero(distances <= distances[furthest])


def epsilon_cutoff(scores: Scores, epsilon: float) -> Indices:
    """Keep scores of at least this probability, or else the likeliest."""
    return _keep_at_least(log_softmax(scores), np.log(epsilon))


def eta_cutoff(scores: Scores, eta: float) -> Indices:
    """Keep scores of at least min(eta, sqrt(eta) * exp(-entropy)), or else the likeliest."""
    logarithms = log_softmax(scores)
    return _keep_at_least(logarithms, min(np.log(eta), np.log(eta) / 2 - _entropy(logarithms)))


def _keep_at_least(logarithms: Scores, threshold: float) -> Indices:
    # At least one token has to stay, however unlikely all are.
    return np.flatnonzero(logarithms >= min(threshold, logarithms.max()))


def log_softmax(scores: Scores) -> Scores:
    """Return the logarithms of the softmax of scores; NaN if the largest score is infinite."""
    # The largest is subtracted first, so that no exponential overflows.
    shifted = scores - scores.max()
    logarithms: Scores = shifted - np.log(np.exp(shifted).sum())
    return logarithms


def _entropy(logarithms: Scores) -> float:
    probabilities = np.exp(logarithms)
    # What has no probability adds nothing, though its logarithm is infinite.
    parts = np.multiply(
        probabilities, logarithms, out=np.zeros_like(logarithms), where=probabilities > 0
    )
    return -float(parts.sum())


def _find_fewest_reaching(keys: Scores, scores: Scores, p: float) -> Indices:
    """Return the indices of the fewest smallest keys whose probabilities sum to at least ``p``.

    They are in the order of their keys.
    """
    weights = np.exp(scores - scores.max())
    needed = p * weights.sum()
    count = min(_HEAD, len(scores))
    while True:
        # Sorting a whole vocabulary takes milliseconds, and the head is nearly always enough.
        head = smallest_indices(keys, count)
        reached = np.cumsum(weights[head])
        if reached[-1] >= needed:
            return head[: int(np.searchsorted(reached, needed)) + 1]
        if count == len(scores):
            return head  # rounding may leave the whole sum a hair below p
        count = min(16 * count, len(scores))


def smallest_indices(keys: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the indices of the ``count`` smallest keys, in the order of these; of equals the lower
    first.
    """
    if count == 0:
        return np.empty(0, np.int64)
    if count < len(keys):
        # Finding the edge takes linear time; only the keys up to it are sorted.
        edge = np.partition(keys, count - 1)[count - 1]
        # All keys equal to the edge are candidates; the stable sort then prefers the lower index.
        candidates = np.flatnonzero(keys <= edge)
    else:
        candidates = np.arange(len(keys))
    order = np.argsort(keys[candidates], kind="stable")
    chosen: NDArray[np.int64] = candidates[order][:count]
    return chosen
