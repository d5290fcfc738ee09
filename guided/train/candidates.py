"""A softmax over a part of the vocabulary, which stands for the whole.

A product with every row of a large vocabulary is most of the cost of a training step. So a step
takes the rows of the right tokens, of the frequent ones, and of a random sample of the others,
which also counts for those not drawn (Jean et al., *On Using Very Large Target Vocabulary for
Neural Machine Translation*, 2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

__all__ = ["CandidateSampler", "Candidates"]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The rows that one step takes."""

    tokens: torch.Tensor
    """``[candidates]``."""
    extra: torch.Tensor
    """What to add to the logit of each, ``[candidates]``."""
    right: torch.Tensor
    """The index of each right token among them, in the shape of the right tokens."""


class CandidateSampler:
    """Draws the rows of a step."""

    def __init__(self, frequent: torch.Tensor, vocabulary: int, drawn: int) -> None:
        """``frequent`` are always taken; of the others ``drawn``, or all if there are fewer."""
        self._frequent = frequent
        self._vocabulary = vocabulary
        self._drawn = drawn

    def sample(self, right: torch.Tensor) -> Candidates:
        """Return the candidates for right tokens of any shape."""
        is_certain = torch.zeros(self._vocabulary, dtype=torch.bool)
        is_certain[self._frequent] = True
        is_certain[right.flatten()] = True
        certain, others = is_certain.nonzero()[:, 0], (~is_certain).nonzero()[:, 0]
        drawn = others[torch.randperm(len(others))[: self._drawn]]
        tokens = torch.cat((certain, drawn))
        extra = torch.zeros(len(tokens))
        if len(drawn):
            extra[len(certain) :] = math.log(len(others) / len(drawn))
        index = torch.zeros(self._vocabulary, dtype=torch.long)
        index[tokens] = torch.arange(len(tokens))
        return Candidates(tokens, extra, index[right])
