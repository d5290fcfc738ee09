"""Schemas that apply themselves to the same value again and again."""

from __future__ import annotations

from collections.abc import Sequence

from guided.errors import InvalidConstraintError
from guided.grammar.formula import All, Any, Formula, Not, Place

__all__ = ["refuse_endless_application"]


def refuse_endless_application(places: Sequence[Formula], pointers: Sequence[str]) -> None:
    """Raise InvalidConstraintError for a place that comes back to itself without going into a
    member or an item.
    """
    ahead = [_in_place(formula) for formula in places]
    waiting = [len(targets) for targets in ahead]
    behind: dict[int, list[int]] = {}
    for number, targets in enumerate(ahead):
        for target in targets:
            behind.setdefault(target, []).append(number)
    # A place is settled when everything that it applies in place is; cycles never settle.
    settled = [number for number, count in enumerate(waiting) if count == 0]
    for number in settled:
        for other in behind.get(number, ()):
            waiting[other] -= 1
            if waiting[other] == 0:
                settled.append(other)
    if len(settled) == len(places):
        return
    number = next(number for number, count in enumerate(waiting) if count)
    seen: set[int] = set()
    while number not in seen:
        seen.add(number)
        number = next(target for target in ahead[number] if waiting[target])
    raise InvalidConstraintError(
        "the schema refers to nothing but itself: it applies itself to the same value without end",
        pointer=pointers[number],
        hint="refer to it from a member or an item",
    )


def _in_place(formula: Formula) -> set[int]:
    """The places that a formula applies to the same value."""
    found: set[int] = set()
    seen: set[Formula] = set()
    stack = [formula]
    while stack:
        node = stack.pop()
        if isinstance(node, Place):
            found.add(node.number)
        elif isinstance(node, Not):
            stack.append(node.item)
        elif isinstance(node, All | Any) and node not in seen:
            seen.add(node)
            stack += node.parts
    return found
