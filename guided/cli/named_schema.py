"""Reads a schema by its name on the command line: a file, or the type that ``module:Name`` is."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import typer

from guided.cli.common import read_text
from guided.response_types import is_response_type

__all__ = ["read_named_schema"]

_TYPE: Final = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")


def read_named_schema(name: str) -> Any:
    """Return the text of a file, or the Python type or schema that ``module:Name`` stands for.

    Modules are also searched in the working directory. Raises ``typer.BadParameter`` for a name
    that stands for neither, and with the place in the module if importing it fails.
    """
    file = Path(name)
    if file.is_dir():
        raise typer.BadParameter(f"{name!r} is a directory")
    if file.exists():  # perhaps a pipe
        return read_text(file)
    named = _TYPE.fullmatch(name)
    if named is None:
        raise typer.BadParameter(f"{name!r} is neither a file that exists nor module:Name")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(named[1])
        for part in named[2].split("."):
            found = getattr(found, part)
    # The module may do anything, such as end the process where a script does.
    except (Exception, SystemExit) as error:
        raise typer.BadParameter(f"{name!r} cannot be loaded: {_fault(error)}") from error
    if not (isinstance(found, str | Mapping) or is_response_type(found)):
        raise typer.BadParameter(f"{name!r} is neither a type nor a JSON Schema: {found!r}")
    return found


def _fault(error: BaseException) -> str:
    """Return what is wrong, and where if that is in a module: the line of it that ran last."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    imported = [frame.filename for frame in frames if frame.name == "<module>"]
    if not imported:
        return str(error)
    place = next(frame for frame in reversed(frames) if frame.filename == imported[-1])
    return f"{place.filename}, line {place.lineno}: {type(error).__name__}: {error}"
