"""A second process that compiles kernels of constraints as well, while a model is loaded.

Numba compiles one kernel at a time in a process, which takes two minutes for all. It happens once:
compiled kernels stay on the disk, and each process reads what the other has compiled. The two begin
at opposite ends (``ConstraintCompiler.rehearse``), so that they meet in the middle.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Final

from guided.regular.transitions import copy_moves

__all__ = ["KernelProcess"]

_PREPARE: Final = "from guided.constraint.preparation import prepare_kernels; prepare_kernels()"
_LAST_COMPILED: Final[Any] = copy_moves
"""One of the kernels that are compiled last."""


class KernelProcess:
    """The second process, started only if kernels are to be compiled and it has a core for that.

    If loading fails the process continues: what it compiles serves the next start.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.is_needed: Final = not _LAST_COMPILED._cache.is_on_disk(_LAST_COMPILED.targetctx)
        """Whether kernels are to be compiled, as at the first start."""
        if self.is_needed and len(os.sched_getaffinity(0)) > 1:
            command, none = (sys.executable, "-P", "-c", _PREPARE), subprocess.DEVNULL
            self._process = subprocess.Popen(command, stdin=none, stdout=none, stderr=none)

    def end(self) -> None:
        """End the process, once this one has all kernels; it leaves nothing half written."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
