"""Inspects one answer: where each of its tokens came from, and the draft tree of a step.

::

    GenerationResult, Trace ──▶ origins ──▶ legend ──┬──▶ terminal
    TracedStep              ──▶ branches ────────────┴──▶ page (HTML)
    Trace, as it grows      ──▶ watcher: both, step by step
"""

from guided.inspection.branches import Branch, Fate, branch_tree, step_summary
from guided.inspection.legend import LegendEntry, legend_of, summary
from guided.inspection.origins import Origin, TracedToken, origins
from guided.inspection.page import page
from guided.inspection.terminal import answer_view, legend_view, tree_view
from guided.inspection.texts import show_bytes
from guided.inspection.watcher import StepDrawing, Update, Watcher

__all__ = [
    "Branch",
    "Fate",
    "LegendEntry",
    "Origin",
    "StepDrawing",
    "TracedToken",
    "Update",
    "Watcher",
    "answer_view",
    "branch_tree",
    "legend_of",
    "legend_view",
    "origins",
    "page",
    "show_bytes",
    "step_summary",
    "summary",
    "tree_view",
]
