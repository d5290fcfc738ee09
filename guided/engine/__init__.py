"""The engine: requests in, answers out, one model call a step; ``Engine.step`` is the loop.

::

    taking requests   submission, compile_queue, admission
    one request       group, with its runnables: sampled, contrastive, beams; answer_state
    one step          scheduler, drafting, model_call, step_committer, deadlines, request_isolation
    giving answers    results, text_stream, scoring, incomplete
    long work         sliced_work, step_deadline, paused_answers
    counters          counters, request_clock
    constraints alone constraint_tasks
    loading           load, formats, cache_size, memory_plan, call_costs, gc_freeze, kernel_process
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guided.engine.engine import Engine
    from guided.engine.load import load_engine
    from guided.engine.results import Finished
    from guided.spec.delta import Delta

__all__ = ["Delta", "Engine", "Finished", "load_engine"]

_MODULES = {
    "Delta": "guided.spec.delta",
    "Engine": "guided.engine.engine",
    "Finished": "guided.engine.results",
    "load_engine": "guided.engine.load",
}


def __getattr__(name: str) -> object:
    # Imported on first use: code that works on constraints alone needs no torch.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
