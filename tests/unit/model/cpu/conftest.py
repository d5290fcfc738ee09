"""What tests of the forward pass on the CPU share."""

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
"""Those that something is written for; what others run is the same as that of one of them."""


@pytest.fixture(params=_WITH_KERNELS)
def instruction_set(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> InstructionSet:
    """The best that there is; what is better is hidden."""
    best: InstructionSet = request.param
    if not has(best):
        pytest.skip(f"this processor has no {best}")
    sets = list(InstructionSet)
    left = tuple(each for each in sets[sets.index(best) :] if has(each))
    monkeypatch.setattr(instructions, "available", lambda: left)
    return best
