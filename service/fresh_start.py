"""Shares with engines what was loaded, without the remains of compiling it.

Compiling kernels takes several hundred MiB that no allocator gives back, and each fork would have
them. The compiled kernels are on disk, so a standby that had to compile restarts itself::

    standby ──▶ loads, compiles ──▶ exec ──▶ loads, reads kernels ──▶ forks

That happens once per processor, version and format of weights, and takes seconds, where compiling
took minutes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import structlog

from guided.runtime.kernel_cache import is_cache_shared
from guided.runtime.kernel_events import report_kernel_compiles
from guided_service.memory import give_back_memory
from guided_service.messages import StandbySettings, read_settings, write_line

__all__ = ["sharing_afresh"]

_log = structlog.get_logger()


@contextmanager
def sharing_afresh(share: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Yield what to call instead of ``share`` once all is loaded, in a standby's process."""
    compiled = list[int]()

    def share_afresh() -> None:
        if compiled and is_cache_shared():
            _begin_anew(len(compiled))
        give_back_memory()
        share()

    with report_kernel_compiles(compiled.append):
        yield share_afresh


def _begin_anew(compiled: int) -> None:
    """Replace this process by the program it was started with, at most once."""
    settings = read_settings(sys.argv[1])
    assert isinstance(settings, StandbySettings), "not the process of a standby"
    if settings.has_compiled:
        return
    _log.info("kernels are compiled; loading anew without what that took", kernels=compiled)
    again = write_line(msgspec.structs.replace(settings, has_compiled=True)).decode()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:-1], again])  # noqa: S606 - no shell
