"""Medusa heads on a frozen target.

Each head learns the token of the target's own answer that comes some places after the next one, by
cross-entropy; the heads count 1, 0.8, 0.64, ... (Cai et al., *Medusa*, 2024, section 2.2.1). The
residual blocks are trained, while all heads share the target's own matrix over the vocabulary,
which stays as it is: it is most of the numbers to train and to read, and one product then serves
every head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch
from torch import nn

from guided.drafters.heads import MedusaHeads, MedusaShape, save_medusa
from guided.train.candidates import CandidateSampler
from guided.train.examples import Example, draw_places, most_frequent
from guided.train.lesson import Batch, Lesson, loss_by_depth, weighted_loss
from guided.train.target import FrozenTarget

if TYPE_CHECKING:
    from guided.model.load import LoadedModel

__all__ = ["MedusaLesson", "MedusaTraining", "medusa_lesson"]

_FREQUENT: Final = 4096
"""Tokens that are always candidates; the same number of others is drawn for each step."""
_DRAWN: Final = 4096


class MedusaTraining(nn.Module):
    """The residual blocks of all heads, before a matrix that is not trained."""

    matrix: torch.Tensor

    def __init__(self, shape: MedusaShape, matrix: torch.Tensor) -> None:
        super().__init__()
        # The matrices of the heads take no memory here.
        with torch.device("meta"):
            heads = MedusaHeads(shape)
        self.blocks = nn.ModuleList(head[:-1] for head in heads.heads)  # type: ignore[index]
        self.blocks.to_empty(device=matrix.device)
        for parameter in self.blocks.parameters():
            nn.init.zeros_(parameter)
        self.register_buffer("matrix", matrix.detach(), persistent=False)

    def logits(
        self, states: torch.Tensor, candidates: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        """Map states ``[places, hidden]`` to ``[places, candidates]`` for each head.

        ``candidates`` are tokens; ``None`` is the whole vocabulary.
        """
        matrix = self.matrix if candidates is None else self.matrix[candidates]
        return [
            nn.functional.linear(block(states.float()).to(matrix.dtype), matrix)
            for block in self.blocks
        ]

    def forward(
        self,
        states: torch.Tensor,
        candidates: torch.Tensor,
        extra: torch.Tensor,
        right: torch.Tensor,
        weights: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """The loss; ``right`` and ``weights`` are ``[places, heads]``, see ``Candidates``."""
        return loss_by_depth(
            weighted_loss(logits + extra, right[:, head], weights[:, head])
            for head, logits in enumerate(self.logits(states, candidates))
        )


def medusa_lesson(
    loaded: LoadedModel, examples: Sequence[Example], *, heads: int, layers: int, places: int
) -> MedusaLesson:
    """Make a lesson of heads with ``layers`` blocks each, trained at ``places`` of a batch."""
    target = FrozenTarget(loaded.module)
    vocabulary = len(target.head)
    frequent = most_frequent(examples, min(_FREQUENT, vocabulary), vocabulary)
    sampler = CandidateSampler(frequent, vocabulary, _DRAWN)
    return MedusaLesson(target, loaded.name, heads, layers, places, sampler)


@dataclass(frozen=True, slots=True, eq=False)
class MedusaLesson(Lesson):
    """Heads of some shape for a target."""

    depth_name: ClassVar[str] = "head"

    target: FrozenTarget
    base_model: str
    """The target's name, for the config of the heads."""
    heads: int
    layers: int
    places: int
    """Places of a batch that are trained on."""
    candidates: CandidateSampler

    def make_module(self) -> MedusaTraining:
        return MedusaTraining(self._shape, self.target.head)

    def collate(self, examples: Sequence[Example]) -> Batch:
        batch = self._batch(examples, every=False)
        found = self.candidates.sample(batch.pop("following"))
        return {**batch, "candidates": found.tokens, "extra": found.extra, "right": found.right}

    def save(self, module: nn.Module, folder: Path, about: str) -> None:
        assert isinstance(module, MedusaTraining)
        with torch.device("meta"):
            whole = MedusaHeads(self._shape)
        dtype = module.matrix.dtype
        tensors = {
            name: tensor.to(dtype) for name, tensor in module.blocks.state_dict().items()
        } | {f"{head}.{self.layers}.weight": module.matrix for head in range(self.heads)}
        whole.heads.load_state_dict(tensors, assign=True)
        save_medusa(folder, whole, base_model=self.base_model, about=about)

    def told(self) -> Mapping[str, Any]:
        return {"kind": "medusa", "heads": self.heads, "layers": self.layers}

    @property
    def _shape(self) -> MedusaShape:
        vocabulary, hidden = self.target.head.shape
        return MedusaShape(hidden, vocabulary, heads=self.heads, layers=self.layers)

    def _batch(self, examples: Sequence[Example], *, every: bool) -> Batch:
        places = draw_places(examples, self.places, self.heads + 1, every=every)
        seen = self.target.see(examples)
        pairs = zip(places.text.tolist(), places.token.tolist(), strict=True)
        return {
            "states": torch.stack([seen[text].last[token] for text, token in pairs]),
            # The target itself predicts the first token after a place.
            "following": places.following[:, 1:],
            "weights": places.weights[:, 1:],
        }

    def _judged(
        self, module: nn.Module, batch: Batch
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        assert isinstance(module, MedusaTraining)
        for head, logits in enumerate(module.logits(batch["states"].to(module.matrix.device))):
            counts = batch["weights"][:, head] == 1.0
            yield logits[counts].cpu(), batch["following"][counts, head]
