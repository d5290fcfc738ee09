"""A cache whose rows lie anywhere, and sequences that record the slots of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.cpu import CpuDecoder, LayerCache
from guided.model.visible import VisibleSlots

NUM_SLOTS = 400


@dataclass
class Text:
    """One sequence: the slots of its rows, in the order of the text."""

    slots: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.slots)


@dataclass(frozen=True)
class Piece:
    """New tokens of a text; a tree if ``parents`` says which of them each one follows."""

    text: Text
    tokens: NDArray[np.int64]
    parents: Sequence[int | None] | None = None

    @property
    def depths(self) -> NDArray[np.int64]:
        if self.parents is None:
            return np.arange(len(self.tokens))
        depths: list[int] = []
        for parent in self.parents:
            depths.append(0 if parent is None else depths[parent] + 1)
        return np.array(depths)

    @property
    def ancestors(self) -> NDArray[np.bool_]:
        if self.parents is None:
            return np.tri(len(self.tokens), dtype=np.bool_)
        table = np.eye(len(self.tokens), dtype=np.bool_)
        for node, parent in enumerate(self.parents):
            if parent is not None:
                table[node] |= table[parent]
        return table


class Pages:
    """The cache of one decoder; slots are handed out in random order, one list for all layers."""

    def __init__(
        self, decoder: CpuDecoder, *, kv_heads: int, size: int, dtype: torch.dtype = torch.float32
    ) -> None:
        self._decoder = decoder
        self._free = np.random.default_rng(1).permutation(NUM_SLOTS).tolist()
        # Unwritten rows must not be read, so they hold large numbers.
        self._cache = [
            LayerCache.of(
                torch.full((NUM_SLOTS, kv_heads, size), 1e4, dtype=dtype),
                torch.full((NUM_SLOTS, kv_heads, size), 1e4, dtype=dtype),
            )
            for _ in decoder.windows
        ]

    def logits(self, *pieces: Piece) -> list[torch.Tensor]:
        """The logits of all new tokens, by piece; chains are kept, trees are not."""
        positions, rows, counts = [], [], []
        seen: dict[int | None, list[VisibleSlots]] = {
            window: [] for window in self._decoder.windows
        }
        for piece in pieces:
            new = len(piece.tokens)
            slots = [self._free.pop() for _ in range(new)]
            own = piece.text.length + piece.depths
            for window, of_window in seen.items():
                of_window.append(_seen(piece, slots, own, window))
            if piece.parents is None:
                piece.text.slots.extend(slots)
            positions.append(own)
            rows.append(piece.tokens)
            counts.append(new)
        tokens = np.concatenate(rows)
        found = self._decoder.forward(
            tokens, np.concatenate(positions), seen, self._cache, range(len(tokens))
        )
        return list(torch.split(found, counts))


def _seen(
    piece: Piece, new_slots: list[int], positions: NDArray[np.int64], window: int | None
) -> VisibleSlots:
    """Rows before the window of all new tokens are left out, because a cache gives them back."""
    old = piece.text.length
    first = 0 if window is None else max(0, old + 1 - window)
    row_positions = np.concatenate([np.arange(first, old), positions])
    sees = np.ones((len(new_slots), len(row_positions)), np.bool_)
    sees[:, old - first :] = piece.ancestors
    if window is not None:
        sees &= positions[:, None] - row_positions[None, :] < window
    return VisibleSlots(np.array(piece.text.slots[first:] + new_slots, np.int64), sees)
