"""JSON pointers (RFC 6901)."""

from __future__ import annotations

__all__ = ["child"]


def child(pointer: str, *tokens: str | int) -> str:
    """The pointer of something inside what ``pointer`` points at."""
    for token in tokens:
        name = str(token)
        if "~" in name or "/" in name:
            name = name.replace("~", "~0").replace("/", "~1")
        pointer = f"{pointer}/{name}"
    return pointer
