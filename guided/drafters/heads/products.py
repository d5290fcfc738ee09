"""What heads multiply: products with the large matrices over the vocabulary, and their logits.

On the CPU such a matrix is packed as those of the model are (``guided.model.cpu``), since most of
the time that heads take is spent reading it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.cpu.formats import WeightFormat, matrix_packer, multiplies
from guided.model.device import CPU

__all__ = ["NOT_SAID", "Product", "packed_product", "target_logits"]

Product: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""``[rows, in]`` → ``[rows, out]``."""

NOT_SAID: Final = -1e30
"""The logit of a token that a head does not know; not infinite, so that it can be adjusted."""
_FORMATS: Final = {torch.bfloat16: WeightFormat.BF16, torch.float32: WeightFormat.FP32}


def packed_product(weight: torch.Tensor, dtype: torch.dtype, device: torch.device) -> Product:
    """The product with ``weight`` (``[out, in]``), computed in a type on a device."""
    kept = _FORMATS.get(dtype)
    if device != CPU or kept is None or not multiplies(kept):
        moved = weight.detach().to(device, dtype)
        return lambda rows: torch.nn.functional.linear(rows.to(moved), moved)
    matrix = matrix_packer(kept)(weight.detach().to(dtype), None)

    def multiply(rows: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(matrix.multiply(np.ascontiguousarray(rows.float().numpy())))

    return multiply


def target_logits(
    logits: torch.Tensor, vocabulary_size: int, ids: NDArray[np.int64] | None
) -> NDArray[np.float32]:
    """Logits of heads as the target's: ``[rows, said]`` → ``[rows, vocabulary_size]``.

    ``ids`` are the target's tokens that they speak of, ascending; ``None`` is the first ones.
    """
    said = logits.float().cpu().numpy()
    if ids is None and said.shape[1] == vocabulary_size:
        return np.ascontiguousarray(said)
    whole = np.full((len(said), vocabulary_size), NOT_SAID, np.float32)
    if ids is None:
        width = min(said.shape[1], vocabulary_size)
        whole[:, :width] = said[:, :width]
        return whole
    # Models often pad their vocabulary, and no token stands for what is added.
    count = int(np.searchsorted(ids, vocabulary_size))
    whole[:, ids[:count]] = said[:, :count]
    return whole
