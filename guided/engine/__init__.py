"""The engine: requests in, answers out, one model call a step; ``Engine.step`` is the loop.

::

    taking requests   submission, compile_queue, admission
    one request       group, with its runnables: sampled, contrastive, beams; answer_state
    one step          scheduler, drafting, model_call, deadlines, isolation
    giving answers    results, text_stream, scoring
    counters          meter, request_clock
    loading           load, formats, cache_size, memory_plan, call_costs
"""

from guided.engine.engine import Engine
from guided.engine.load import load_engine
from guided.engine.results import Delta, Finished

__all__ = ["Delta", "Engine", "Finished", "load_engine"]
