"""The formats of weights, and who packs and multiplies each on this processor.

A new format is a member of ``WeightFormat``, a branch of ``matrix_packer`` and of ``multiplies``,
and a module with a class that has ``nbytes`` and ``multiply`` (``PackedMatrix``). Another
instruction set for a format is a branch before those that it beats. docs/models.md tells what each
has to hold.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cache, partial
from typing import Final

import torch

from guided.errors import ModelError
from guided.model.cpu.bf16_amx import AMX
from guided.model.cpu.bf16_avx512 import AVX512
from guided.model.cpu.bf16_matrix import Bf16Matrix
from guided.model.cpu.instructions import InstructionSet, chosen, has
from guided.model.cpu.int8_matrix import Int8Matrix, is_kept_twice
from guided.model.cpu.matrix import LargePages, PackedMatrix
from guided.model.cpu.onednn_matrix import Fp32Matrix, OneDnnBf16Matrix, multiply_int8, pack_int8

__all__ = ["Pack", "WeightFormat", "matrix_packer", "multiplies", "require_format"]

Pack = Callable[[torch.Tensor, torch.Tensor | None], PackedMatrix]
"""Makes a matrix of a weight ``[out, in]`` and a bias ``[out]``."""

_MOST = 127
_INSTRUCTIONS: Final = {
    "bfloat16": (InstructionSet.AVX512_BF16,),
    "int8": (InstructionSet.AVX512_VNNI, InstructionSet.AVX_VNNI),
}
"""Any of them lets a processor multiply a format."""


class WeightFormat(StrEnum):
    """The numbers that matrices are made of, as ``dtype`` names them; all else is float32."""

    FP32 = "float32"
    BF16 = "bfloat16"
    INT8 = "int8"
    """A scale for each output; activations as sums of two int8, so they lose next to nothing."""


def matrix_packer(weight_format: WeightFormat, *, streams: bool = True) -> Pack:
    """Who packs the matrices of one model; raises ``ModelError`` as ``require_format`` does.

    Without ``streams``, matrices of int8 are not kept a second time where ``is_kept_twice``.
    """
    require_format(weight_format)
    if weight_format is WeightFormat.FP32:
        return Fp32Matrix
    memory = LargePages()
    if weight_format is WeightFormat.INT8:
        return partial(Int8Matrix, memory=memory if streams or not is_kept_twice() else None)
    # The best first.
    if chosen() is InstructionSet.AMX:
        return partial(Bf16Matrix, memory=memory, kernel=AMX)
    if has(InstructionSet.AVX512_BF16):
        return partial(Bf16Matrix, memory=memory, kernel=AVX512)
    return OneDnnBf16Matrix


def multiplies(weight_format: WeightFormat) -> bool:
    """Whether a format is neither slow nor wrong on this processor."""
    if weight_format is WeightFormat.INT8:
        return _multiplies_int8()
    return weight_format is WeightFormat.FP32 or _multiplies_bf16()


def require_format(weight_format: WeightFormat) -> None:
    """Raise ``ModelError`` where a format would be slow or wrong on this processor."""
    if not multiplies(weight_format):
        ways = " or ".join(known for known in WeightFormat if multiplies(known))
        raise ModelError(
            f"this processor does not multiply {weight_format} matrices: it has none of the "
            f"instructions {', '.join(_INSTRUCTIONS[weight_format])}, or they do not add up",
            hint=f"choose {ways}",
        )


@cache
def _multiplies_bf16() -> bool:
    """Natively: oneDNN says yes to processors on which bf16 is slower than fp32 as well."""
    is_known = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return is_known and _has_any(WeightFormat.BF16)


@cache
def _multiplies_int8() -> bool:
    """Whether the largest products add up exactly; without VNNI they saturate at 16 bits."""
    if not _has_any(WeightFormat.INT8):
        return False
    packed = pack_int8(torch.full((64, 256), _MOST, dtype=torch.int8))
    rows = torch.full((16, 256), -_MOST, dtype=torch.int8)
    products = multiply_int8(rows, packed, torch.ones(64), torch.zeros(64, dtype=torch.int32))
    return bool((products == -_MOST * _MOST * 256).all())


def _has_any(weight_format: WeightFormat) -> bool:
    return any(map(has, _INSTRUCTIONS[weight_format]))
