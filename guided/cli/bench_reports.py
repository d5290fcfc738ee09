"""The reports of ``guided bench``: a workload in two ways, or drafter by drafter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from guided.bench import (
    Comparison,
    InProcess,
    Target,
    Workload,
    compare,
    compare_ways,
    figures_of,
    figures_tables,
)
from guided.bench.drafters import drafter_figures, drafter_tables, drafter_ways
from guided.bench.hardware import HardwareFigures, hardware_figures, hardware_table

__all__ = [
    "DrafterReport",
    "WorkloadReport",
    "bench_drafters",
    "bench_workload",
    "measure_hardware",
    "show_hardware",
]


class WorkloadReport:
    """The report on a workload answered as its requests say, and by masks alone."""

    def __init__(self, title: str, comparison: Comparison) -> None:
        self._title = title
        self._comparison = comparison
        self._figures = {way: figures_of(runs) for way, runs in comparison.runs.items()}

    def show(self) -> None:
        """Print the tables."""
        console = Console()
        console.print(self._title, style="bold")
        console.print(figures_tables(self._figures))

    def write(self, file: Path, hardware: HardwareFigures | None) -> None:
        """Write every figure and every request as JSON."""
        _write(file, self._comparison, hardware, **_as_json(self._figures, self._comparison))

    def plot(self, file: Path) -> None:
        """Draw the figures."""
        from guided.bench.plot import plot_comparison

        plot_comparison(self._comparison, file)


class DrafterReport:
    """The report on a workload with each drafter, with all and with none, at each temperature."""

    def __init__(self, title: str, comparisons: Mapping[float, Comparison]) -> None:
        self._title = title
        self._comparisons = comparisons
        self._figures = {
            temperature: drafter_figures(comparison)
            for temperature, comparison in comparisons.items()
        }

    def show(self) -> None:
        """Print the tables."""
        console = Console()
        for temperature, found in self._figures.items():
            how = f"temperature {temperature:g}" if temperature else "greedy"
            console.print(f"{self._title}, {how}", style="bold")
            console.print(drafter_tables(found))

    def write(self, file: Path, hardware: HardwareFigures | None) -> None:
        """Write every figure and every request as JSON."""
        tables = [
            {"temperature": temperature, **_as_json(self._figures[temperature], comparison)}
            for temperature, comparison in self._comparisons.items()
        ]
        any_of = next(iter(self._comparisons.values()))
        _write(file, any_of, hardware, drafters=tables)

    def plot(self, file: Path) -> None:
        """Draw the figures."""
        from guided.bench.plot import plot_drafters

        plot_drafters(self._title, self._figures, file)


def bench_workload(target: Target, requests: Workload, **how: Any) -> WorkloadReport:
    """Answer a workload as its requests say, and by masks alone; ``how`` is as for ``compare``."""
    return WorkloadReport(_title(target, requests, **how), compare(target, requests, **how))


def bench_drafters(
    target: Target, requests: Workload, temperatures: Sequence[float], **how: Any
) -> DrafterReport:
    """Answer a workload with each drafter, with all and with none, at each temperature.

    ``how`` is as for ``compare_ways``.
    """
    comparisons = {}
    for temperature in temperatures:
        ways = drafter_ways(target.drafters, temperature)
        comparisons[temperature] = compare_ways(target, requests, ways, **how)
    return DrafterReport(_title(target, requests, **how), comparisons)


def measure_hardware(target: Target) -> HardwareFigures | None:
    """Measure memory and model calls of an engine in this process on the CPU; else ``None``."""
    hardware = target.hardware if isinstance(target, InProcess) else None
    if hardware is None or not hardware.instruction_set:
        return None
    # Imported here, as a client of a server has no models.
    from guided.model.cpu.bandwidth import bytes_per_second

    return hardware_figures(hardware, bytes_per_second())


def show_hardware(found: HardwareFigures | None) -> None:
    """Print how far a machine is from what its memory allows, if that was measured."""
    if found is not None:
        Console().print(hardware_table(found), highlight=False)


def _title(target: Target, requests: Workload, *, concurrency: int, **_: object) -> str:
    on = target.instruction_set and f", {target.instruction_set}"
    return f"{target.model_name}, {len(requests)} requests, {concurrency} at once{on}"


def _as_json(figures: Mapping[str, Any], comparison: Comparison) -> dict[str, Any]:
    return {
        "figures": {way: asdict(found) for way, found in figures.items()},
        "runs": {way: list(map(asdict, runs)) for way, runs in comparison.runs.items()},
    }


def _write(
    file: Path, comparison: Comparison, hardware: HardwareFigures | None, **more: Any
) -> None:
    report = {
        "model": comparison.model,
        "concurrency": comparison.concurrency,
        "machine": hardware and asdict(hardware),
        **more,
    }
    file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
