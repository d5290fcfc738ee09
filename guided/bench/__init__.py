"""Measures a model and its engine on a workload, against plain decoding by the same engine."""

from guided.bench.compare import Comparison, compare, compare_ways
from guided.bench.figures import Figures, figures_of, figures_tables
from guided.bench.target import InProcess, Measured, Remote, Target, Way
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
    "compare_ways",
    "figures_of",
    "figures_tables",
    "read_workload",
]
