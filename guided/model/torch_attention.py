"""Attention of one model call in one group of layers, by torch's own kernel, on any device.

Torch needs keys and values in one piece and all sequences of one length, so they are gathered and
padded. Sequences of similar size are computed together: a call over eight costs a quarter of eight
calls. Two sequences, of 2 new tokens after 1 and of 1 after 1, as a padded batch::

    packed tokens  0 1 2        tokens  is_token  slots    mask
                                0 1     x x       5 6 7    xx. xxx
                                2 _     x .       9 8 9    xx. x.. (padding sees one row, any)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from guided.kv.paged_storage import LayerSlots
from guided.model.visible import VisibleSlots

__all__ = ["ScoreOptions", "TorchAttention", "softmax_attention"]

_MOST_WASTE = 2
"""A batch may be padded to at most this many times the work of its smallest sequence."""
_MOST_FOLDED = 64
"""New tokens up to which query heads are folded: with more, the larger mask costs more than it
saves."""


class ScoreOptions(NamedTuple):
    """How a layer turns queries and keys into weights, besides a softmax of their products."""

    scaling: float | None = None
    """The factor of products; ``None`` is one over the root of the heads' size."""
    softcap: float | None = None
    """Scores are squashed into ``(-softcap, softcap)`` by a hyperbolic tangent before they are
    masked (Gemma Team, *Gemma 2*, 2024)."""
    sinks: torch.Tensor | None = None
    """Scores of a row without a value, ``[heads]``: its share of the softmax is lost
    (Xiao et al., *Efficient streaming language models with attention sinks*, 2023)."""


_Numbered = tuple[int, VisibleSlots]
"""The packed index of a sequence's first token, and what the sequence sees."""


class TorchAttention:
    """Who sees what, worked out once for all layers of a group; sequences in packed order."""

    def __init__(
        self, visible: Sequence[VisibleSlots], *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._batches = [_PaddedBatch(batch, dtype, device) for batch in _by_size(visible)]

    def attend(
        self,
        query: torch.Tensor,
        layer: LayerSlots,
        scores: ScoreOptions,
    ) -> torch.Tensor:
        """Map ``[packed tokens, heads, size]`` to ``[packed tokens, heads, value size]``."""
        found = [batch.attend(query, layer, scores) for batch in self._batches]
        if len(found) == 1:
            return found[0]  # its tokens are in packed order
        output = found[0].new_empty(len(query), *found[0].shape[1:])
        for batch, rows in zip(self._batches, found, strict=True):
            output.index_copy_(0, batch.tokens, rows)
        return output


def _by_size(visible: Sequence[VisibleSlots]) -> list[list[_Numbered]]:
    """Return sequences, in packed order, in batches that may be padded to their largest."""
    starts = np.cumsum([0, *(len(rows.mask) for rows in visible)]).tolist()
    batches: list[list[_Numbered]] = []
    most_new = most_rows = 0
    for each in sorted(zip(starts, visible, strict=False), key=lambda each: -each[1].mask.size):
        new, rows = each[1].mask.shape
        padded = max(most_new, new) * max(most_rows, rows)
        if not batches or padded > _MOST_WASTE * new * rows:
            batches.append([])
            most_new = most_rows = 0
        batches[-1].append(each)
        most_new, most_rows = max(most_new, new), max(most_rows, rows)
    return [sorted(batch, key=lambda each: each[0]) for batch in batches]


class _PaddedBatch:
    """Sequences, each padded to the most new tokens and the most rows of any."""

    def __init__(
        self, sequences: Sequence[_Numbered], dtype: torch.dtype, device: torch.device
    ) -> None:
        self._dtype, self._device = dtype, device
        count = len(sequences)
        new = max(len(rows.mask) for _, rows in sequences)
        seen = max(len(rows.slots) for _, rows in sequences)
        tokens = np.zeros((count, new), np.int64)
        is_token = np.zeros((count, new), np.bool_)
        slots = np.empty((count, seen), np.int64)
        mask = np.zeros((count, new, seen), np.bool_)
        mask[:, :, 0] = True  # for padding: a softmax over nothing is NaN
        for number, (start, rows) in enumerate(sequences):
            own, length = rows.mask.shape
            tokens[number, :own] = np.arange(start, start + own)
            is_token[number, :own] = True
            slots[number, :length] = rows.slots
            slots[number, length:] = rows.slots[0]  # some slot that holds finite numbers
            mask[number, :own, :length] = rows.mask
        self._mask = mask
        self._masks: dict[int, torch.Tensor | None] = {}
        self._slots = torch.from_numpy(slots.reshape(-1)).to(device)
        self._padded_tokens = torch.from_numpy(tokens.reshape(-1)).to(device)
        places = None if is_token.all() else np.flatnonzero(is_token)
        self._places = None if places is None else torch.from_numpy(places).to(device)
        self.tokens = torch.from_numpy(tokens[is_token]).to(device)
        """Where its tokens are in the packed row."""

    def attend(
        self,
        query: torch.Tensor,
        layer: LayerSlots,
        scores: ScoreOptions,
    ) -> torch.Tensor:
        """Map ``[packed tokens, heads, size]`` to the batch's ``[tokens, heads, value size]``.

        In narrow calls the query heads that share a key head become rows of one query, so that a
        key is read once for all of them.
        """
        count, new = self._mask.shape[:2]
        keys, values = (
            rows.view(count, -1, *rows.shape[1:]).transpose(1, 2)
            for rows in layer.read(self._slots)
        )  # [sequences, kv heads, rows, size]
        if len(self._padded_tokens) != len(query) or self._places is not None:
            query = query.index_select(0, self._padded_tokens)
        heads, kv_heads = query.shape[1], keys.shape[1]
        is_folded = new <= _MOST_FOLDED and scores.softcap is None and scores.sinks is None
        shared = heads // kv_heads if is_folded else 1
        folded = query.to(keys.dtype).view(count, new, heads // shared, shared, -1)
        found = softmax_attention(
            folded.permute(0, 2, 3, 1, 4).reshape(count, heads // shared, shared * new, -1),
            keys,
            values,
            self._make_bias(shared),
            scores,
        )
        unfolded = found.view(count, heads // shared, shared, new, -1).permute(0, 3, 1, 2, 4)
        output = unfolded.to(query.dtype).reshape(count * new, heads, -1)
        return output if self._places is None else output.index_select(0, self._places)

    def _make_bias(self, shared: int) -> torch.Tensor | None:
        """Return the bias of the scores if ``shared`` heads are folded into one."""
        if shared not in self._masks:
            hidden = torch.from_numpy(~self._mask).to(self._device)[:, None]
            zeros = torch.zeros(hidden.shape, dtype=self._dtype, device=self._device)
            added = zeros.masked_fill_(hidden, float("-inf")).repeat(1, 1, shared, 1)
            self._masks[shared] = None if self._mask.all() else added
        return self._masks[shared]


def softmax_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    options: ScoreOptions,
) -> torch.Tensor:
    """Attend with ``[batch, heads, new, size]`` over ``[batch, kv heads, rows, size]``.

    ``mask`` is added to the scores, ``[batch or 1, 1, new, rows]``.
    """
    scaling, softcap, sinks = options
    shared = query.shape[1] // keys.shape[1]
    if softcap is None and sinks is None:
        return scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, scale=scaling, enable_gqa=shared > 1
        )
    # Torch has no kernel for these.
    keys, values = (rows.repeat_interleave(shared, dim=1) for rows in (keys, values))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = query @ keys.transpose(2, 3) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = scores + mask
    new, rows = scores.shape[2:]
    if sinks is not None:
        column = sinks.to(scores.dtype).view(1, -1, 1, 1).expand(len(scores), -1, new, 1)
        scores = torch.cat([scores, column], dim=-1)
    # As the models themselves do it: the weights are computed at least in fp32.
    weights = scores.softmax(dim=-1, dtype=torch.promote_types(torch.float32, scores.dtype))
    return weights[..., :rows].to(values.dtype) @ values
