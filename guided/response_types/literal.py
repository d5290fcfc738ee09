"""Literal text inside a pattern."""

from __future__ import annotations

import re

__all__ = ["literal"]

_SYNTAX = re.compile(r"[\^$\\.*+?()\[\]{}|/]")


def literal(text: str) -> str:
    """Escape the syntax characters of ECMA-262, and no others: it knows no further escapes."""
    return _SYNTAX.sub(lambda found: "\\" + found[0], text)
