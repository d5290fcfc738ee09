"""Measuring a model and its engine on a workload, beside plain decoding by the same engine."""

from guided.bench.compare import Comparison, compare
from guided.bench.figures import Figures, figures_of
from guided.bench.measured import Measured, Way
from guided.bench.target import InProcess, Remote, Target
from guided.bench.workload import Workload, read_workload

__all__ = [
    "Comparison",
    "Figures",
    "InProcess",
    "Measured",
    "Remote",
    "Target",
    "Way",
    "Workload",
    "compare",
    "figures_of",
    "read_workload",
]
