"""The common fixtures of tests of the forward pass on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from guided.model.cpu import instructions
from guided.model.cpu.instructions import InstructionSet, has


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


_WITH_KERNELS = (InstructionSet.AMX, InstructionSet.AVX512_BF16, InstructionSet.PORTABLE)
"""Instruction sets with code of their own; others run the same code as one of these."""


@pytest.fixture(params=_WITH_KERNELS)
def instruction_set(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> InstructionSet:
    """Make this the best available instruction set; better ones are hidden."""
    best: InstructionSet = request.param
    if not has(best):
        pytest.skip(f"this processor has no {best}")
    sets = list(InstructionSet)
    left = tuple(each for each in sets[sets.index(best) :] if has(each))
    monkeypatch.setattr(instructions, "available", lambda: left)
    return best
