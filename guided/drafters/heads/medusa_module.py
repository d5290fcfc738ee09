"""Medusa heads: each says a token further on, from the last hidden state of the target alone.

Head ``k`` of the state at position ``p`` speaks of position ``p + 2 + k``, as the target's own head
speaks of ``p + 1``. It is some residual blocks and a matrix over the vocabulary::

    state ─▶ x + SiLU(Wx + b) ─▶ ... ─▶ * vocabulary ─▶ logits

Cai et al., *Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads*,
2024, section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

__all__ = ["MedusaHeads", "MedusaShape"]


@dataclass(frozen=True, slots=True)
class MedusaShape:
    """What the tensors of some heads look like."""

    hidden_size: int
    """Numbers in a state of the target."""
    vocabulary_size: int
    """Logits that a head gives."""
    heads: int
    layers: int = 1
    """Residual blocks of each head."""

    def __post_init__(self) -> None:
        assert min(self.hidden_size, self.vocabulary_size, self.heads) > 0 <= self.layers, (
            f"no heads have the shape {self!r}"
        )


class ResidualBlock(nn.Module):
    """``x + SiLU(Wx + b)``, at first ``x`` alone."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """``[..., size]`` → ``[..., size]``."""
        changed: torch.Tensor = nn.functional.silu(self.linear(rows))
        return rows + changed


class MedusaHeads(nn.Module):
    """All heads of one target; the names of ``heads``'s tensors are those of published files."""

    def __init__(self, shape: MedusaShape) -> None:
        super().__init__()
        self.shape = shape
        self.heads = nn.ModuleList(
            nn.Sequential(
                *(ResidualBlock(shape.hidden_size) for _ in range(shape.layers)),
                nn.Linear(shape.hidden_size, shape.vocabulary_size, bias=False),
            )
            for _ in range(shape.heads)
        )

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The logits of every head: ``[..., hidden]`` → ``[heads, ..., vocabulary]``.

        States are those that the target's own head reads, so after the last norm.
        """
        return torch.stack([head(states) for head in self.heads])

    def features(self, states: torch.Tensor) -> torch.Tensor:
        """What the matrices over the vocabulary read: ``[..., hidden]`` → ``[heads, ..., hidden]``.

        A training loop that shares one matrix, or that computes the loss in pieces, begins here.
        """
        return torch.stack([head[:-1](states) for head in self.heads])  # type: ignore[index, operator]

    def vocabulary_matrix(self, head: int) -> torch.Tensor:
        """The matrix of one head over the vocabulary, ``[vocabulary, hidden]``."""
        weight: torch.Tensor = self.heads[head][-1].weight  # type: ignore[index, union-attr, assignment]
        return weight

    @torch.no_grad()
    def copy_head(self, weight: torch.Tensor) -> None:
        """Let every head begin as the target's own, of which this is the matrix.

        That is ``[vocabulary, hidden]``; heads that begin at random learn far more slowly.
        """
        for head in range(self.shape.heads):
            self.vocabulary_matrix(head).copy_(weight)
