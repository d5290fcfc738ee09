"""The command ``guided`` within the test's process: a separate one would take a second to load."""

from __future__ import annotations

import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from unittest.mock import patch

from guided.cli import main

__all__ = ["guided_command"]


def guided_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Its output and exit status; an error that would be a traceback is raised."""
    command = ["guided", *arguments]
    out, errors, status = StringIO(), StringIO(), 0
    with patch.object(sys, "argv", command), redirect_stdout(out), redirect_stderr(errors):
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
    return subprocess.CompletedProcess(command, status, out.getvalue(), errors.getvalue())
