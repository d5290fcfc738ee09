"""Sharing with engines what was loaded, and not what was left over on the way there.

Compiling kernels takes several hundred MiB that no allocator gives back, and each fork would have
them. What was compiled lies on the disk, so a standby that had to do it begins anew::

    standby ──▶ loads, compiles ──▶ exec ──▶ loads, reads kernels ──▶ forks

That happens once for each processor, version and format of weights, and takes seconds beside the
minutes that compiling did.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import structlog

from guided.runtime.kernel_cache import is_kept_for_others
from guided.runtime.kernel_events import telling_of_kernels
from guided_service.memory import give_back_memory
from guided_service.messages import StandbySettings, read_settings, write_line

__all__ = ["sharing_afresh"]

_log = structlog.get_logger()


@contextmanager
def sharing_afresh(share: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """What to call instead of ``share`` once all is loaded inside, in a standby of its own."""
    compiled = list[int]()

    def share_afresh() -> None:
        if compiled and is_kept_for_others():
            _begin_anew(len(compiled))
        give_back_memory()
        share()

    with telling_of_kernels(compiled.append):
        yield share_afresh


def _begin_anew(compiled: int) -> None:
    """Become the program that this process was started with, once."""
    settings = read_settings(sys.argv[1])
    assert isinstance(settings, StandbySettings), "not the process of a standby"
    if settings.has_compiled:
        return
    _log.info("kernels are compiled; loading anew without what that took", kernels=compiled)
    again = write_line(msgspec.structs.replace(settings, has_compiled=True)).decode()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:-1], again])  # noqa: S606 - no shell
