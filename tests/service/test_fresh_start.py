"""A standby that had to compile kernels restarts before it forks, once they are on disk."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from guided_service.messages import ModelChoice, StandbySettings, write_line

_KERNEL = """
from guided.runtime.kernel import kernel

@kernel
def one():
    return 1
"""
_STANDBY = """
import sys
from pathlib import Path
from guided.runtime import kernel_cache
from guided_service.engine_process import main
from guided_service.fresh_start import sharing_afresh

kernel_cache._ROOT = Path(__file__).parent
sys.path.insert(0, str(kernel_cache._ROOT / "masks"))

def load(choice, share):
    with sharing_afresh(share) as share_afresh:
        from one import one
        one()
        print("compiled" if not one.stats.cache_hits else "read", flush=True)
        share_afresh()

sys.exit(main(load))
"""
_NOTHING_MAY_BE_WRITTEN = """
from numba.core import caching

def refuse(self):
    raise OSError

for name in ("UserProvided", "InTree", "UserWide"):
    getattr(caching, name + "CacheLocator").ensure_cache_path = refuse
kernel_cache._TemporaryFolderLocator.ensure_cache_path = caching._CacheLocator.ensure_cache_path
"""


@pytest.mark.parametrize(
    ("may_write", "told"),
    [(True, [["compiled", "read"], ["read"]]), (False, [["compiled"], ["compiled"]])],
)
def test_kernels_are_compiled_in_a_process_that_forks_nothing(
    may_write: bool, told: list[list[str]], tmp_path: Path
) -> None:
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks" / "one.py").write_text(_KERNEL)
    begin = "kernel_cache._ROOT ="
    program = _STANDBY if may_write else _STANDBY.replace(begin, _NOTHING_MAY_BE_WRITTEN + begin)
    (tmp_path / "standby.py").write_text(program)
    assert [_told_by(tmp_path / "standby.py") for _ in told] == told


def _told_by(program: Path) -> list[str]:
    """The output of a standby until it finds its server gone; the server requests no engine."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.shutdown(socket.SHUT_WR)
        settings = StandbySettings(ModelChoice(), os.getpid(), theirs.fileno())
        command = [sys.executable, str(program), write_line(settings).decode()]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, pass_fds=[theirs.fileno()], check=True
        )
    return done.stdout.split()
