"""The hardware that an engine computes on, and what its model calls cost there."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from guided.decoding.draft_budget import CostCurve
from guided.engine.memory_plan import Footprint
from guided.model.cpu.instructions import best_instructions
from guided.model.device import CPU, device_text

__all__ = ["Hardware", "instruction_set_of"]


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine under an engine."""

    device: torch.device
    instruction_set: str
    """The instructions that multiply matrices on the CPU; empty on another device."""
    threads: int
    """Threads of a model call on the CPU."""
    bytes_per_call: int
    """Bytes of weights that every model call reads, however few its tokens."""
    costs: CostCurve | None
    """What calls cost; ``None`` where nothing is drafted, because then it is not measured."""

    @classmethod
    def of_this_process(cls, footprint: Footprint, costs: CostCurve | None) -> Hardware:
        """Describe the machine of this process, for a model."""
        device = footprint.device
        threads = torch.get_num_threads()
        return cls(device, instruction_set_of(device), threads, footprint.bytes_per_call, costs)

    def __str__(self) -> str:
        if self.device != CPU:
            return device_text(self.device)
        return f"{self.instruction_set}, {self.threads} thread{'s' * (self.threads > 1)}"


def instruction_set_of(device: torch.device) -> str:
    """Return the instructions that multiply matrices on the CPU; empty for other devices."""
    return best_instructions() if device == CPU else ""
