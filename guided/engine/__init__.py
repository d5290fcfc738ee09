"""The engine: requests in, answers out, one model call a step."""

from guided.engine.engine import Engine
from guided.engine.load import load_engine
from guided.engine.results import Delta, Finished

__all__ = ["Delta", "Engine", "Finished", "load_engine"]
