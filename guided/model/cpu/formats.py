"""The formats of weights, and what packs and multiplies each on this processor.

A new format is a member of ``WeightFormat``, a branch of ``matrix_packer``, and a module with a
class that has ``nbytes`` and ``multiply`` (``PackedMatrix``). Another instruction set for a format
is a branch before those that it beats; the last branch runs anywhere. docs/models.md says what each
has to satisfy.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial

import torch

from guided.model.cpu.bf16_amx import AMX
from guided.model.cpu.bf16_matrix import Bf16Kernel, Bf16Matrix
from guided.model.cpu.bf16_vectors import AVX512, PORTABLE
from guided.model.cpu.fp32_matrix import Fp32Matrix
from guided.model.cpu.instructions import InstructionSet, best_instructions, has
from guided.model.cpu.int4_matrix import Int4Matrix
from guided.model.cpu.int8_matrix import Int8Matrix
from guided.model.cpu.matrix import LargePages, PackedMatrix

__all__ = ["Pack", "WeightFormat", "bf16_kernel", "matrix_packer"]

Pack = Callable[[torch.Tensor, torch.Tensor | None], PackedMatrix]
"""Makes a matrix of a weight ``[out, in]`` and a bias ``[out]``."""


class WeightFormat(StrEnum):
    """The numbers that matrices consist of, as ``dtype`` names them; all else is float32."""

    FP32 = "float32"
    BF16 = "bfloat16"
    INT8 = "int8"
    """A scale for each output; activations as good as 15 bits, so they lose next to nothing."""
    INT4 = "int4"
    """A scale and a least number for 32 inputs of an output; activations of 8 bits, scaled
    likewise. The head has 8 bits, with a scale for 32 inputs, and activations of 16."""


def matrix_packer(weight_format: WeightFormat, *, is_head: bool = False) -> Pack:
    """Return what packs the matrices of one model, or its head."""
    if weight_format is WeightFormat.FP32:
        return Fp32Matrix
    memory = LargePages()
    if weight_format is WeightFormat.BF16:
        return partial(Bf16Matrix, memory=memory, kernel=bf16_kernel())
    if weight_format is WeightFormat.INT4:
        return partial(Int4Matrix, memory=memory, is_head=is_head)
    return partial(Int8Matrix, memory=memory)


def bf16_kernel() -> Bf16Kernel:
    """Return the fastest kernel for bf16 on this processor."""
    if best_instructions() is InstructionSet.AMX:
        return AMX
    return AVX512 if has(InstructionSet.AVX512_BF16) else PORTABLE
