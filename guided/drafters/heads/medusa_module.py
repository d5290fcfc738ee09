"""Medusa heads: each predicts a further token, only from the last hidden state of the target.

Head ``k`` of the state at position ``p`` predicts position ``p + 2 + k``, as the target's own head
predicts ``p + 1``. It is some residual blocks and a matrix over the vocabulary::

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
    """The sizes of some heads' tensors."""

    hidden_size: int
    """Numbers in a state of the target."""
    vocabulary_size: int
    """Logits of a head."""
    heads: int
    layers: int = 1
    """Residual blocks of each head."""

    def __post_init__(self) -> None:
        assert min(self.hidden_size, self.vocabulary_size, self.heads) > 0 <= self.layers, (
            f"no heads have the shape {self!r}"
        )


class ResidualBlock(nn.Module):
    """``x + SiLU(Wx + b)``, at first only ``x``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Map ``[..., size]`` to ``[..., size]``."""
        changed: torch.Tensor = nn.functional.silu(self.linear(rows))
        return rows + changed


class MedusaHeads(nn.Module):
    """All heads of one target; the tensors of ``heads`` are named as in published files."""

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
        """Return the logits of every head: ``[..., hidden]`` → ``[heads, ..., vocabulary]``.

        States are those that the target's own head reads, so after the last norm.
        """
        return torch.stack([head(states) for head in self.heads])

    def vocabulary_matrix(self, head: int) -> torch.Tensor:
        """Return the matrix of one head over the vocabulary, ``[vocabulary, hidden]``."""
        weight: torch.Tensor = self.heads[head][-1].weight  # type: ignore[index]
        return weight

    def parts(self, head: int) -> tuple[nn.Module, nn.Module]:
        """Return the residual blocks of one head, and its matrix over the vocabulary."""
        whole = self.heads[head]
        assert isinstance(whole, nn.Sequential)
        return whole[:-1], whole[-1]

    def share_matrices(self) -> None:
        """Make heads with equal matrices share one, as when only blocks were trained.

        The files that are written stay the same.
        """
        for head in range(self.shape.heads):
            for earlier in range(head):
                _, matrix = self.parts(earlier)
                if torch.equal(self.vocabulary_matrix(earlier), self.vocabulary_matrix(head)):
                    self.heads[head][-1] = matrix  # type: ignore[operator]
                    break
