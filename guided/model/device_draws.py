"""Drawing tokens on a model's device: masks are sent there, and one number a row is returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from guided.decoding.device_draw import DeviceDraw
from guided.spec import TokenId

__all__ = ["DeviceDraws"]

_WORD: Final = 32
_SIGNED: Final = 1 << 63


class DeviceDraws:
    """Draws tokens from logits of a vocabulary's size on one device; needs Triton."""

    def __init__(self, device: torch.device, vocabulary_size: int) -> None:
        self._device = device
        self._words = -(-vocabulary_size // _WORD)
        self._make_room(1)

    def draw(
        self, logits: torch.Tensor, wanted: Sequence[DeviceDraw | None]
    ) -> tuple[TokenId | None, ...]:
        """Draw a token for each row of ``logits``, ``[rows, vocabulary]``, where one is wanted.

        There is none if logits are not numbers, or if nothing is allowed.
        """
        places = [row for row, draw in enumerate(wanted) if draw is not None]
        if not places:
            return (None,) * len(wanted)
        if len(places) > len(self._masks):
            self._make_room(len(places))
        for number, draw in enumerate(draw for draw in wanted if draw is not None):
            self._masks[number] = draw.mask
            self._temperatures[number] = draw.temperature
            self._streams[number] = draw.stream - (draw.stream >= _SIGNED) * 2 * _SIGNED
        # Triton is not installed everywhere.
        from guided.model.triton_draw import draw_tokens

        every = len(places) == len(logits)
        found = draw_tokens(logits if every else logits[places], *self._copy_to_device(len(places)))
        tokens: list[TokenId | None] = [None] * len(wanted)
        for place, token in zip(places, found.tolist(), strict=True):
            tokens[place] = TokenId(token) if token >= 0 else None
        return tuple(tokens)

    def _make_room(self, rows: int) -> None:
        """Allocate memory that is copied to the device while the processor continues."""
        is_pinned = self._device.type == "cuda"
        rows = 1 << (rows - 1).bit_length()
        self._sent = (
            torch.zeros(rows, self._words, dtype=torch.int32, pin_memory=is_pinned),
            torch.zeros(rows, dtype=torch.float64, pin_memory=is_pinned),
            torch.zeros(rows, dtype=torch.int64, pin_memory=is_pinned),
        )
        self._masks, self._temperatures, self._streams = (
            np.asarray(tensor.numpy()) for tensor in self._sent
        )

    def _copy_to_device(self, rows: int) -> tuple[torch.Tensor, ...]:
        # Earlier copies have arrived, because their tokens have been returned since.
        return tuple(sent[:rows].to(self._device, non_blocking=True) for sent in self._sent)
