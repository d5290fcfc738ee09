"""Checks which model a request names."""

from __future__ import annotations

from collections.abc import Iterable

from guided.errors import UnknownModelError

__all__ = ["check_model"]


def check_model(asked: str, known: Iterable[str]) -> None:
    """Raise UnknownModelError unless ``asked`` is a known name or empty."""
    names = tuple(known)
    if asked and asked not in names:
        raise UnknownModelError(
            f"model is {asked!r:.80}, but the server has {', '.join(map(repr, names))}",
            field="model",
            hint="name one of these, or leave model out for the first",
        )
