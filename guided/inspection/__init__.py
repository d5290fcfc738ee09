"""Inspects one answer: where each of its tokens came from, and the draft tree of a step.

::

    GenerationResult, Trace ──▶ origins ──▶ legend ──┬──▶ terminal
    TracedStep              ──▶ branches ────────────┴──▶ page (HTML)
    Trace, as it grows      ──▶ watching: both, step by step
"""

from guided.inspection.branches import Branch, Fate, about, tree_of
from guided.inspection.legend import Entry, legend_of, summary
from guided.inspection.origins import Origin, TracedToken, origins
from guided.inspection.page import page
from guided.inspection.terminal import answer_view, legend_view, tree_view
from guided.inspection.texts import shown
from guided.inspection.watching import DrawnStep, News, Watcher

__all__ = [
    "Branch",
    "DrawnStep",
    "Entry",
    "Fate",
    "News",
    "Origin",
    "TracedToken",
    "Watcher",
    "about",
    "answer_view",
    "legend_of",
    "legend_view",
    "origins",
    "page",
    "shown",
    "summary",
    "tree_of",
    "tree_view",
]
