"""Resolves references within a schema's text."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

__all__ = ["at_pointer", "escape_token", "pointer_of", "target_of"]

_INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")


def target_of(root: Any, reference: object) -> Any:
    """Return the target of a reference; ``None`` if it does not exist or is outside the schema."""
    pointer = pointer_of(reference)
    return None if pointer is None else at_pointer(root, pointer)


def pointer_of(reference: object) -> str | None:
    """Return the JSON pointer of a reference such as ``#/$defs/City``; ``None`` for any other."""
    if not isinstance(reference, str):
        return None
    document, _, fragment = reference.partition("#")
    pointer = unquote(fragment)
    return None if document or (pointer and not pointer.startswith("/")) else pointer


def escape_token(name: str) -> str:
    """Return a name escaped for a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def at_pointer(root: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer (RFC 6901); ``None`` if there is none."""
    value = root
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and _INDEX.fullmatch(name) and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return None
    return value
