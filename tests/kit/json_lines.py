"""The lines of JSON lines."""

from __future__ import annotations

__all__ = ["lines_of"]


def lines_of(text: str) -> list[str]:
    """Return the lines, each with its end.

    Not as ``splitlines`` has them: texts may contain other characters that end a line for Python.
    """
    return [f"{line}\n" for line in text.removesuffix("\n").split("\n")] if text else []
