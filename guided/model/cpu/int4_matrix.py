"""Any weights in four bits: 32 inputs of an output share a scale and a least number.

Scale and least number of a group are searched to minimise the squared rounding error: for several
ranges, some of which clip the farthest weights, the codes are rounded and scale and least number
fitted to the codes, by turns. The result is multiplied as a Q4_1 block.

The head of such a model has eight bits, as a Q8_0 block: with four it would lose more than all
other matrices together (benchmarks/results/forward.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from guided.model.cpu.block_types import BLOCK_TYPES, Codes
from guided.model.cpu.matrix import LargePages, Numbers
from guided.model.cpu.stored_kernel import instructions_here
from guided.model.cpu.stored_matrix import StoredMatrix, StoredPart

__all__ = ["Int4Matrix", "round_to_int4", "round_to_int8"]

_FORM: Final = BLOCK_TYPES["Q4_1"].form
_HEAD_FORM: Final = BLOCK_TYPES["Q8_0"].form
_GROUP: Final = _FORM.group
_MOST: Final = 15
_HEAD_MOST: Final = 127
_RANGES: Final = (1.0, 0.92, 0.84)
"""Shares of the range of a group that are tried."""
_TURNS: Final = 2
_TAKEN: Final = 1024
"""Outputs that are rounded at a time."""


class Int4Matrix:
    """Weights in codes of four bits, or of eight for a head, made when the matrix is packed."""

    __slots__ = ("_inputs", "_matrix", "nbytes")

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        memory: LargePages,
        *,
        is_head: bool = False,
    ) -> None:
        """Raises ``NotFiniteError`` for weights that are not numbers, or beyond float16."""
        outputs, self._inputs = weight.shape
        padded = -(-self._inputs // _GROUP) * _GROUP
        form = _HEAD_FORM if is_head else _FORM
        rounded: Callable[..., Codes] = round_to_int8 if is_head else round_to_int4

        def codes() -> Iterator[Codes]:
            for start in range(0, outputs, _TAKEN):
                exact = weight[start : start + _TAKEN].float().numpy()
                yield rounded(np.pad(exact, ((0, 0), (0, padded - self._inputs))))

        part = StoredPart(form, (outputs, padded), codes(), memory, instructions_here())
        self._matrix = StoredMatrix([part], None if bias is None else bias.float().numpy().copy())
        self.nbytes = self._matrix.nbytes

    def multiply(self, rows: Numbers) -> Numbers:
        """Map ``[tokens, in]`` to ``[tokens, out]``."""
        missing = -self._inputs % _GROUP
        return self._matrix.multiply(np.pad(rows, ((0, 0), (0, missing))) if missing else rows)


@np.errstate(invalid="ignore", over="ignore")
def round_to_int4(weights: NDArray[np.float32]) -> Codes:
    """Round ``[out, in]``, a multiple of 32, to codes.

    A group with something that is not a number, or too large for float16, gets a scale or a least
    number that is not finite.
    """
    groups = weights.reshape(len(weights), -1, _GROUP)
    low, high = groups.min(axis=-1, keepdims=True), groups.max(axis=-1, keepdims=True)
    best_error = np.full_like(low, np.inf)
    best_scale, best_least = (high - low) / _MOST, low
    for share in _RANGES:
        scale = (high - low) * np.float32(share / _MOST)
        least = low + (high - low) * np.float32((1 - share) / 2)
        for _ in range(_TURNS):
            scale, least = _fit_scale(groups, _nearest(groups, scale, least))
            scale, least = _as_kept(scale), _as_kept(least)
            found = _nearest(groups, scale, least) * scale + least
            error = np.square(found - groups).sum(axis=-1, keepdims=True)
            is_better = error < best_error
            best_error = np.where(is_better, error, best_error)
            best_scale = np.where(is_better, scale, best_scale)
            best_least = np.where(is_better, least, best_least)
    best_scale, best_least = _as_kept(best_scale), _as_kept(best_least)
    codes = _nearest(groups, best_scale, best_least).astype(np.uint8)
    scales, leasts = (each[..., 0].astype(np.float16) for each in (best_scale, best_least))
    return Codes(_FORM, codes.reshape(weights.shape), scales, leasts, None, None)


@np.errstate(invalid="ignore", over="ignore")
def round_to_int8(weights: NDArray[np.float32]) -> Codes:
    """Round as ``round_to_int4``, with a scale for the farthest weight of each group."""
    groups = weights.reshape(len(weights), -1, _GROUP)
    scales = (np.abs(groups).max(axis=-1, keepdims=True) / _HEAD_MOST).astype(np.float16)
    steps = groups / np.where(scales == 0, 1, scales).astype(np.float32)
    codes = np.nan_to_num(steps.round()).clip(-_HEAD_MOST, _HEAD_MOST) + _HEAD_FORM.offset
    found = codes.astype(np.uint8).reshape(weights.shape)
    return Codes(_HEAD_FORM, found, scales[..., 0], None, None, None)


def _nearest(groups: Numbers, scale: Numbers, least: Numbers) -> Numbers:
    """Return the nearest codes, as floats."""
    steps = (groups - least) / np.where(scale == 0, 1, scale)
    found: Numbers = np.nan_to_num(steps.round()).clip(0, _MOST)
    return found


def _fit_scale(groups: Numbers, codes: Numbers) -> tuple[Numbers, Numbers]:
    """Fit scale and least number so that codes are nearest to the weights, by least squares."""
    mean_code = codes.mean(axis=-1, keepdims=True)
    mean = groups.mean(axis=-1, keepdims=True)
    apart = codes - mean_code
    spread = np.square(apart).sum(axis=-1, keepdims=True)
    scale = (apart * (groups - mean)).sum(axis=-1, keepdims=True) / np.where(spread == 0, 1, spread)
    return scale, mean - scale * mean_code


def _as_kept(floats: Numbers) -> Numbers:
    kept: Numbers = floats.astype(np.float16).astype(np.float32)
    return kept
