"""The instruction sets that multiply matrices, and which of them this processor has.

A kernel is written for one of them, and runs wherever that is available. ``NUMBA_CPU_NAME`` limits
them to what the named processor has: ``NUMBA_CPU_NAME=haswell`` leaves AVX2 and the sets below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Final

import torch

from guided.runtime.processor import named_processor

__all__ = ["InstructionSet", "available", "best_instructions", "has", "register_width"]


class InstructionSet(StrEnum):
    """Instructions that multiply narrow numbers, the best first."""

    AMX = "AMX"
    """Tiles of bf16 and int8; such processors have the next two as well."""
    AVX512_BF16 = "AVX-512 BF16"
    """Pairs of bf16 to 16 sums; such processors have the next one as well."""
    AVX512_VNNI = "AVX-512 VNNI"
    """Products of int8 and int16 added to 16 sums of 32 bits."""
    AVX_VNNI = "AVX-VNNI"
    """The same, to 8 sums."""
    AVX2 = "AVX2"
    """Registers of 8 floats, and a product added to a sum in one instruction."""
    PORTABLE = "portable"
    """Vectors as LLVM compiles them for any processor, including NEON."""


_FEATURES: Final[Mapping[InstructionSet, tuple[str, ...]]] = {
    InstructionSet.AMX: ("amx_bf16", "amx_int8", "avx512_bf16", "avx512_vnni"),
    InstructionSet.AVX512_BF16: ("avx512_bf16", "avx512_vnni"),
    InstructionSet.AVX512_VNNI: ("avx512_vnni",),
    InstructionSet.AVX_VNNI: ("avx_vnni",),
    InstructionSet.AVX2: ("avx2", "fma3"),
    InstructionSet.PORTABLE: (),
}
"""The processor features of each, by their names in torch."""

_PROCESSORS: Final[Mapping[InstructionSet, str]] = {
    InstructionSet.AMX: "sapphirerapids emeraldrapids graniterapids graniterapids-d diamondrapids",
    InstructionSet.AVX512_BF16: "cooperlake znver4 znver5",
    InstructionSet.AVX512_VNNI: "cascadelake icelake-client icelake-server rocketlake tigerlake",
    InstructionSet.AVX_VNNI: (
        "alderlake raptorlake meteorlake arrowlake arrowlake-s lunarlake pantherlake gracemont "
        "sierraforest grandridge clearwaterforest"
    ),
    InstructionSet.AVX2: (
        "haswell broadwell skylake skylake-avx512 cannonlake x86-64-v3 x86-64-v4 core-avx2 "
        "znver1 znver2 znver3"
    ),
}
"""The best set of processors by LLVM's names; all others count as portable."""


@cache
def available() -> tuple[InstructionSet, ...]:
    """Return the sets that this processor has, the best first; the last is the portable one."""
    sets = list(InstructionSet)
    name = named_processor()
    if name is not None:
        sets = sets[sets.index(_best_of(name)) :]
    return tuple(each for each in sets if _is_here(each))


def best_instructions() -> InstructionSet:
    """Return the best set that this processor has."""
    return available()[0]


def has(instructions: InstructionSet) -> bool:
    """Whether this processor can run kernels of an instruction set."""
    return instructions in available()


def _best_of(processor: str) -> InstructionSet:
    for best, names in _PROCESSORS.items():
        if processor.lower() in names.split():
            return best
    return InstructionSet.PORTABLE


def _is_here(instructions: InstructionSet) -> bool:
    capabilities = torch.cpu.get_capabilities()
    if not all(capabilities.get(name) for name in _FEATURES[instructions]):
        return False
    # The system has to let this process use tiles.
    return instructions is not InstructionSet.AMX or bool(torch.cpu._init_amx())


def register_width(instructions: InstructionSet) -> int:
    """Return how many numbers of 32 bits a register has where these are the best instructions."""
    narrower = {InstructionSet.AVX_VNNI: 8, InstructionSet.AVX2: 8, InstructionSet.PORTABLE: 4}
    return narrower.get(instructions, 16)
