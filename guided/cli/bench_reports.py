"""Makes the reports of ``guided bench``: a workload in two ways, or drafter by drafter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from guided.bench import Comparison, Target, Workload
    from guided.bench.compare import Tell
    from guided.bench.drafters import DrafterFigures
    from guided.bench.hardware import HardwareFigures

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
        from guided.bench import figures_of

        self._title = title
        self._comparison = comparison
        self._figures = {way: figures_of(runs) for way, runs in comparison.runs.items()}

    def show(self) -> None:
        """Print the tables."""
        from guided.bench import figures_tables

        console = Console()
        console.print(self._title, style="bold")
        console.print(figures_tables(self._figures))

    def write(self, file: Path, hardware: HardwareFigures | None) -> None:
        """Write every figure and every request as JSON."""
        comparison = self._comparison
        report = {
            "model": comparison.model,
            "concurrency": comparison.concurrency,
            "machine": hardware and asdict(hardware),
            "figures": {way: asdict(found) for way, found in self._figures.items()},
            "runs": {way: list(map(asdict, runs)) for way, runs in comparison.runs.items()},
        }
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    def plot(self, file: Path) -> None:
        """Draw the figures."""
        from guided.bench.plot import plot_comparison

        plot_comparison(self._comparison, file)


class DrafterReport:
    """The report on a workload with each drafter, with all and with none, at each temperature."""

    def __init__(self, title: str, comparisons: Mapping[float, Comparison]) -> None:
        from guided.bench.drafters import drafter_figures

        self._title = title
        self._comparisons = comparisons
        self._figures: dict[float, dict[str, DrafterFigures]] = {
            temperature: drafter_figures(comparison)
            for temperature, comparison in comparisons.items()
        }

    def show(self) -> None:
        """Print the tables."""
        from guided.bench.drafters import drafter_tables

        console = Console()
        for temperature, found in self._figures.items():
            how = f"temperature {temperature:g}" if temperature else "greedy"
            console.print(f"{self._title}, {how}", style="bold")
            console.print(drafter_tables(found))

    def write(self, file: Path, hardware: HardwareFigures | None) -> None:
        """Write every figure and every request as JSON."""
        tables = [
            {
                "temperature": temperature,
                "figures": {way: asdict(of) for way, of in self._figures[temperature].items()},
                "runs": {way: list(map(asdict, runs)) for way, runs in comparison.runs.items()},
            }
            for temperature, comparison in self._comparisons.items()
        ]
        any_of = next(iter(self._comparisons.values()))
        report = {
            "model": any_of.model,
            "concurrency": any_of.concurrency,
            "machine": hardware and asdict(hardware),
            "drafters": tables,
        }
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    def plot(self, file: Path) -> None:
        """Draw the figures."""
        from guided.bench.drafters_plot import plot_drafters

        plot_drafters(self._title, self._figures, file)


def bench_workload(
    target: Target,
    requests: Workload,
    *,
    concurrency: int,
    rounds: int,
    with_plain: bool,
    tell: Tell,
) -> WorkloadReport:
    """Answer a workload as its requests say, and by masks alone."""
    from guided.bench import compare

    comparison = compare(
        target,
        requests,
        concurrency=concurrency,
        rounds=rounds,
        with_plain=with_plain,
        tell=tell,
    )
    return WorkloadReport(_title(target, requests, concurrency), comparison)


def bench_drafters(
    target: Target,
    requests: Workload,
    temperatures: Sequence[float],
    *,
    concurrency: int,
    rounds: int,
    tell: Tell,
) -> DrafterReport:
    """Answer a workload with each drafter, with all and with none, at each temperature."""
    from guided.bench import compare_ways
    from guided.bench.drafters import drafter_ways

    comparisons = {}
    for temperature in temperatures:
        ways = drafter_ways(target.drafters, temperature)
        comparisons[temperature] = compare_ways(
            target, requests, ways, concurrency=concurrency, rounds=rounds, tell=tell
        )
    return DrafterReport(_title(target, requests, concurrency), comparisons)


def measure_hardware(target: Target) -> HardwareFigures | None:
    """Measure memory and model calls of an engine in this process on the CPU; else ``None``."""
    from guided.bench import InProcess
    from guided.bench.hardware import hardware_figures

    hardware = target.hardware if isinstance(target, InProcess) else None
    if hardware is None or not hardware.instruction_set:
        return None
    from guided.model.cpu.bandwidth import bytes_per_second

    return hardware_figures(hardware, bytes_per_second())


def show_hardware(found: HardwareFigures) -> None:
    """Print how far a machine is from what its memory allows."""
    from guided.bench.hardware import hardware_table

    Console().print(hardware_table(found), highlight=False)


def _title(target: Target, requests: Workload, concurrency: int) -> str:
    on = target.instruction_set and f", {target.instruction_set}"
    return f"{target.model_name}, {len(requests)} requests, {concurrency} at once{on}"
