"""The command ``guided`` within the test's own process: in one of its own it loads for a second."""

from __future__ import annotations

import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from unittest.mock import patch

from guided.cli import main

__all__ = ["guided_command"]


def guided_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What it says and its exit status; raises what would be a traceback."""
    command = ["guided", *arguments]
    out, errors, status = StringIO(), StringIO(), 0
    with patch.object(sys, "argv", command), redirect_stdout(out), redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
    return subprocess.CompletedProcess(command, status, out.getvalue(), errors.getvalue())
