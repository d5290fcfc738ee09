"""What ``guided check`` is to check: a file, or a type in a module."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from guided.cli.schema_file import read_schema_file
from guided.response_types import is_response_type

__all__ = ["read_subject"]

_TYPE = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")


def read_subject(subject: str) -> Any:
    """The text of the schema in a file, or the type that ``module:Name`` stands for.

    Modules are also looked for in the working directory.
    """
    if Path(subject).is_file():
        return read_schema_file(Path(subject))
    named = _TYPE.fullmatch(subject)
    if named is None:
        raise typer.BadParameter(f"{subject!r} is neither a file that exists nor module:Name")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(named[1])
        for name in named[2].split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise typer.BadParameter(f"{subject!r} cannot be loaded: {error}") from error
    if not (isinstance(found, str | Mapping) or is_response_type(found)):
        raise typer.BadParameter(f"{subject!r} is neither a type nor a JSON Schema: {found!r}")
    return found
