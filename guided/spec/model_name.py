"""Checks which model a request names."""

from __future__ import annotations

from collections.abc import Iterable

from guided.errors import UnknownModelError

__all__ = ["check_model"]


def check_model(name: str, known_names: Iterable[str]) -> None:
    """Raise UnknownModelError unless ``name`` is empty or among ``known_names``."""
    names = tuple(known_names)
    if name and name not in names:
        raise UnknownModelError(
            f"model is {name!r:.80}, but the server has {', '.join(map(repr, names))}",
            field="model",
            hint="name one of these, or leave model out for the first",
        )
