"""The engine: requests in, answers out, one model call a step."""

from guided.engine.engine import Engine
from guided.engine.load import load_engine
from guided.engine.result import Finished

__all__ = ["Engine", "Finished", "load_engine"]
