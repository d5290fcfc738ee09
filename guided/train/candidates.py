"""A softmax over a part of the vocabulary, which stands for the whole.

A product with every row of a large vocabulary is most of what a step of training costs. So a step
takes the rows of the right tokens and of the frequent ones, and of all others some that are drawn;
each of these stands for as many as there are for one that was drawn (Jean et al., *On Using Very
Large Target Vocabulary for Neural Machine Translation*, 2015).
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
    """Where each of the right tokens is among them, in the shape of those."""


class CandidateSampler:
    """Draws the rows of a step."""

    def __init__(self, frequent: torch.Tensor, vocabulary: int, drawn: int) -> None:
        """``frequent`` are always taken; of the others so many are ``drawn``, or all there are."""
        self._frequent = frequent
        self._vocabulary = vocabulary
        self._drawn = drawn

    def sample(self, right: torch.Tensor) -> Candidates:
        """The candidates for right tokens of any shape."""
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
