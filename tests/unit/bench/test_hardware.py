"""The description of a machine: its bound, the costs of calls, and the gain drafts need."""

from __future__ import annotations

import pytest
import torch
from rich.console import Console

from guided.bench.hardware import hardware_figures, hardware_table
from guided.decoding.draft_budget import CostCurve
from guided.engine.hardware import Hardware, instruction_set_of
from guided.model.cpu.bandwidth import bytes_per_second
from guided.model.cpu.instructions import best_instructions
from guided.model.device import CPU

COSTS = CostCurve.from_measurements({1: 0.010, 2: 0.011, 8: 0.020, 64: 0.100, 128: 0.2})
MACHINE = Hardware(CPU, "AVX2", 2, 100_000_000, COSTS)


def shown(machine: Hardware) -> list[str]:
    console = Console(width=140)
    with console.capture() as capture:
        console.print(hardware_table(hardware_figures(machine, 20e9)), highlight=False)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_calls_are_told_beside_their_bound_and_what_drafts_have_to_give() -> None:
    head, *lines = shown(MACHINE)
    assert head == (
        "AVX2, 2 threads; memory is read at 20.0 GB/s, so a call takes at least 5.0 ms for its "
        "100 MB of weights"
    )
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if "│" in line]
    assert cells == [
        ["1", "10.0", "2.00", ""],
        ["2", "11.0", "2.20", "0.1 of 1"],
        ["8", "20.0", "4.00", "1.0 of 7"],
        ["64", "100.0", "20.00", "9.0 of 63"],
    ]


def test_a_machine_without_costs_is_told_in_a_line() -> None:
    assert shown(Hardware(CPU, "portable", 1, 40_000_000, None)) == [
        "portable, 1 thread; memory is read at 20.0 GB/s, so a call takes at least 2.0 ms for its "
        "40 MB of weights"
    ]


@pytest.mark.parametrize(
    ("device", "told"), [(CPU, best_instructions()), (torch.device("cuda", 1), "")]
)
def test_only_the_cpu_has_an_instruction_set(device: torch.device, told: str) -> None:
    assert instruction_set_of(device) == told


def test_memory_is_read_at_some_speed() -> None:
    """Between the speeds of the slowest memory and the fastest cache."""
    assert 1e8 < bytes_per_second() < 1e13
