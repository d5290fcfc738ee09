"""The command line called in this process, for tests that need no process of its own."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from guided.cli import main

__all__ = ["Ended", "call_guided"]


class Ended(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def call_guided(
    *arguments: str,
    folder: Path | None = None,
    columns: int = 200,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run ``guided`` with arguments, as if it were started in ``folder``."""
    folder = folder or Path.cwd()
    with io.StringIO() as output, io.StringIO() as errors:
        with pytest.MonkeyPatch.context() as patch, _forgetting_modules_of(folder):
            patch.setattr(sys, "argv", ["guided", *arguments])
            patch.setattr(sys, "path", [*sys.path])
            patch.setattr(sys, "excepthook", sys.excepthook)  # typer puts its own there
            # As in a process started from a file, whose name is the command's.
            patch.setattr(sys.modules["__main__"], "__package__", None, raising=False)
            for name, value in {"COLUMNS": str(columns), **(environment or {})}.items():
                patch.setenv(name, value)
            patch.chdir(folder)
            status: object = 0
            with redirect_stdout(output), redirect_stderr(errors):
                try:
                    main()
                except SystemExit as end:
                    status = end.code
        assert status is None or isinstance(status, int), status
        return Ended(status or 0, output.getvalue(), errors.getvalue())


@contextmanager
def _forgetting_modules_of(folder: Path) -> Iterator[None]:
    """Forget modules of the folder: the next one may have others of the same names."""
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).parent == folder:
            del sys.modules[name]
