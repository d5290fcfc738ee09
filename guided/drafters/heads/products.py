"""The products of heads: matrices packed as the model's are, and logits of the target.

On the CPU matrices are packed (``guided.model.cpu``), because heads spend most of their time
reading them; rows are float32 then. Elsewhere they stay as they are.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from guided.model.cpu.formats import Pack, WeightFormat, matrix_packer
from guided.model.device import CPU

__all__ = ["UNKNOWN_LOGIT", "pack_linears", "rows_dtype", "target_logits"]

UNKNOWN_LOGIT: Final = -1e30
"""The logit of a token that a head does not know; finite, so that it can be adjusted."""
_FORMATS: Final = {torch.bfloat16: WeightFormat.BF16, torch.float32: WeightFormat.FP32}


class _PackedLinear(nn.Module):
    """A packed linear layer; its weights are not parameters any more."""

    def __init__(self, linear: nn.Linear, pack: Pack) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        self._matrix = pack(linear.weight.detach(), bias)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Map ``[..., in]`` to ``[..., out]``, float32."""
        flat = rows.detach().reshape(-1, rows.shape[-1]).float().numpy()
        out = torch.from_numpy(self._matrix.multiply(np.ascontiguousarray(flat)))
        return out.view(*rows.shape[:-1], -1)


def rows_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the type of rows, given the type of weights and the device."""
    return dtype if _format(dtype, device) is None else torch.float32


def pack_linears(module: nn.Module, dtype: torch.dtype, device: torch.device) -> None:
    """Move a module to a device and a type, with its linear layers packed where that is faster."""
    module.to(device, dtype)
    chosen = _format(dtype, device)
    if chosen is None:
        return
    pack = matrix_packer(chosen)
    packed: dict[nn.Linear, _PackedLinear] = {}
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                # A layer in two places is packed once.
                if child not in packed:
                    packed[child] = _PackedLinear(child, pack)
                setattr(parent, name, packed[child])


def _format(dtype: torch.dtype, device: torch.device) -> WeightFormat | None:
    """Return the format in which matrices are packed; ``None`` where they are not."""
    return _FORMATS.get(dtype) if device == CPU else None


def target_logits(
    logits: torch.Tensor, vocabulary_size: int, ids: NDArray[np.int64] | None
) -> NDArray[np.float32]:
    """Map logits of heads, ``[rows, covered]``, to the target's, ``[rows, vocabulary_size]``.

    ``ids`` are the target's tokens that they cover, ascending; ``None`` is the first ones.
    """
    rows = logits.float().cpu().numpy()
    if ids is None and rows.shape[1] == vocabulary_size:
        return np.ascontiguousarray(rows)
    whole = np.full((len(rows), vocabulary_size), UNKNOWN_LOGIT, np.float32)
    if ids is None:
        width = min(rows.shape[1], vocabulary_size)
        whole[:, :width] = rows[:, :width]
        return whole
    # Models often pad their vocabulary, and no token stands for the padding.
    count = int(np.searchsorted(ids, vocabulary_size))
    whole[:, ids[:count]] = rows[:, :count]
    return whole
