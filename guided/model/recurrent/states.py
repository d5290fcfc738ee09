"""The state that the recurrent layers of a model keep of a text.

The state of a layer is that after the last *certain* token. Which drafted tokens stay is known only
after the call, when a state that had read them would be useless; so the layers' inputs for them are
kept instead, and read once more at the beginning of the next call::

    tokens      p p p p c │ d d d        5 certain, 3 drafted, of which 2 stay
    layers      after c
    log                     d d          the next call reads these, then its own tokens
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

__all__ = ["ComputedSegment", "LayerState", "RecurrentState"]

LayerState: TypeAlias = tuple[torch.Tensor | None, ...]
"""The tensors that one layer keeps, ``[sequences, ...]`` each; empty if it has read nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class RecurrentState:
    """All that is kept of a beginning of a text; none of its tensors is ever written to again."""

    length: int
    """Tokens of that beginning, including those in the log."""
    layers: tuple[LayerState, ...]
    """The state of each mixer, for one sequence."""
    log: tuple[torch.Tensor, ...] = ()
    """By mixer, its inputs for the last tokens, which it has not read: ``[tokens, size]``."""

    @classmethod
    def empty(cls, mixers: int) -> RecurrentState:
        """Return the state of a text without tokens."""
        return cls(0, ((),) * mixers)

    @property
    def is_empty(self) -> bool:
        """Whether the layers have read nothing."""
        return not any(self.layers)

    @property
    def logged(self) -> int:
        """The number of tokens in the log."""
        return len(self.log[0]) if self.log else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the layers' tensors."""
        return sum(tensor.nbytes for tensor in _tensors(self.layers))


@dataclass(frozen=True, slots=True, eq=False)
class ComputedSegment:
    """The states of one segment after a call; see ``guided.kv.recurrence.ComputedStates``."""

    certain: int
    """The number of first new tokens that are certain to stay."""
    ended: RecurrentState
    """After the certain tokens, with nothing logged."""
    drafted: tuple[torch.Tensor, ...]
    """By mixer, its inputs for the other new tokens, ``[drafted, size]``."""
    checkpoint: RecurrentState | None

    def after(self, kept: Sequence[int]) -> RecurrentState:
        """Return the state after those of the new tokens that stay."""
        assert list(kept[: self.certain]) == list(range(self.certain)), (
            f"of {self.certain} certain tokens only {list(kept)} stay"
        )
        rows = [node - self.certain for node in kept[self.certain :]]
        if not rows:
            return self.ended
        log = tuple(entered[rows] for entered in self.drafted)
        return RecurrentState(self.ended.length + len(rows), self.ended.layers, log)


def _tensors(layers: Iterable[LayerState]) -> list[torch.Tensor]:
    return [tensor for layer in layers for tensor in layer if tensor is not None]
