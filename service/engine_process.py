"""The program of the engine process: ``python -m guided_service.engine_process SETTINGS``.

Its settings make it an engine, or a standby that forks engines (``forks``).

The engine has a process of its own because other Python threads slow a model call many times over.
This process has one thread, which either steps the engine or waits for messages, and another that
tokenises long prompts without holding the interpreter.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, NoReturn

import msgspec
import structlog

from guided.runtime.environment import prepare_environment
from guided_service.engine_loop import run_engine
from guided_service.forks import SharingLoader, run_standby
from guided_service.logs import LoggedProgress, configure_logs
from guided_service.memory import allot_together, give_back_memory
from guided_service.messages import EngineSettings, ModelChoice, read_settings
from guided_service.process_life import die_with_parent, ignore_terminal_signals, is_orphan

if TYPE_CHECKING:
    from guided.engine import Engine
    from guided.errors import ModelError

__all__ = ["load_real_engine", "main"]


_log = structlog.get_logger()


def main(load: SharingLoader) -> int:
    """Run the engine or standby that the first argument describes; returns the exit status."""
    ignore_terminal_signals()
    die_with_parent()
    allot_together()
    settings = read_settings(sys.argv[1])
    if is_orphan(settings.parent):
        return 1
    configure_logs(settings.logs)
    if isinstance(settings, EngineSettings):
        return run_engine(settings, lambda choice: load(choice, None))
    return run_standby(settings, load)


def load_real_engine(choice: ModelChoice, share: Callable[[], None] | None) -> Engine:
    """Load the engine that a server has chosen.

    ``share`` is called once everything that engines can share is loaded.
    """
    prepare_environment()
    # Almost nothing that is loaded is garbage, and collecting takes a tenth of the loading time.
    gc.disable()
    progress = LoggedProgress()
    # Loading torch takes seconds, in which the server may end; so the lifeline is set up before.
    with progress.step("loading torch and transformers"):
        from guided.engine import load_engine
        from guided.model.device import may_use_cuda
        from guided_service.fresh_start import sharing_afresh

    has_ranks = choice.tensor_parallel > 1 or choice.pipeline_parallel > 1
    if share is not None and (may_use_cuda(choice.device) or has_ranks):
        # A process that has initialised CUDA or connected to other ranks cannot be forked.
        share()
        share = None
    options = msgspec.structs.asdict(choice)
    with nullcontext() if share is None else sharing_afresh(share) as share_afresh:
        engine = load_engine(**options, progress=progress, share=share_afresh, on_loss=_leave)
    gc.enable()
    give_back_memory()
    return engine


def _leave(loss: ModelError) -> NoReturn:
    """End this process after losing a part of its model; it may be waiting for the lost rank."""
    _log.error("engine ends", reason=str(loss))
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(load_real_engine))
