"""Checks that what a host's processor is given is compiled."""

from __future__ import annotations

from guided.compiler import Compiled
from guided.errors import RequestError

__all__ = ["compiled_constraint"]


def compiled_constraint(given: object) -> Compiled:
    """Return a constraint; raises RequestError for a type or a schema that is not compiled yet."""
    if isinstance(given, Compiled):
        return given
    raise RequestError(
        f"{given!r} is not a compiled constraint",
        field="constraint",
        hint="pass what Compiler(tokenizer).compile makes of it",
    )
