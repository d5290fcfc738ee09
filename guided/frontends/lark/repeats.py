"""The bounds of Lark's repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from guided.errors import InvalidConstraintError
from guided.frontends.place import Place

__all__ = ["repeat_bounds"]

_SIGNS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def repeat_bounds(text: str, tokens: Sequence[Any]) -> tuple[int, int | None]:
    """What ``?``, ``*``, ``+``, ``~ 3`` or ``~ 3..5`` stands for."""
    sign, *numbers = tokens
    if sign in _SIGNS:
        return _SIGNS[sign]
    low, high = int(numbers[0]), int(numbers[-1])
    if not 0 <= low <= high:
        place = Place.of_token(text, numbers[0])
        raise InvalidConstraintError(
            place.message(f"the bounds {low}..{high} are out of order"), position=place.position
        )
    return low, high
