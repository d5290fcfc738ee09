"""Figures of processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.kit.processes import facts_of


def test_a_process_that_has_ended_has_no_figures_before_it_is_waited_for_either() -> None:
    """Whoever looks at a process that is killed meanwhile has to look again."""
    with subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE) as process:
        assert facts_of(process.pid).mebibytes > 0
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProcessLookupError):
            facts_of(process.pid)
