"""Processes forked from one that has imported the libraries: torch, transformers, ours.

Importing them takes seconds of processor time in every new process. The process that forks has one
thread and has computed nothing, so its forks are as good as freshly started ones.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from functools import cache
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Final

from guided.cli import main

__all__ = ["forking", "start_guided"]

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


def start_guided(arguments: Sequence[str], log: Path) -> ForkServerProcess:
    """Start the command ``guided`` in a fork; its output goes into a file."""
    process = forking().Process(target=_be_guided, args=(arguments, log), daemon=True)
    process.start()
    return process


def _be_guided(arguments: Sequence[str], log: Path) -> None:
    file = os.open(log, os.O_CREAT | os.O_WRONLY)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    sys.argv = ["guided", *arguments]
    main()
