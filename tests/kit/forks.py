"""Processes that are forked from one that has imported the libraries: torch, transformers, ours.

Importing them takes seconds of processor time, in each process that is started. The one that is
forked from has one thread and has computed nothing, so that its forks are as new as any process.
"""

from __future__ import annotations

import multiprocessing
from functools import cache
from multiprocessing.context import ForkServerContext
from typing import Final

__all__ = ["forking"]

_IMPORTED: Final = [
    "guided.cli.app",
    "guided.engine.load",
    "guided.model.parallel.worker",
    "guided.train.run",
    "torch.distributed.tensor",
    "transformers.models.gemma3.modeling_gemma3",
    "transformers.models.llama.modeling_llama",
    "transformers.models.mixtral.modeling_mixtral",
]


@cache
def forking() -> ForkServerContext:
    """Makes processes as ``multiprocessing`` does, by forks of the one process of this run."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context
