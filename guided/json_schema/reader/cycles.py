"""Schemas that apply themselves to the same value again and again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from guided.errors import InvalidConstraintError
from guided.json_schema.formulas.formula import All, Any, Formula, Not, Place

__all__ = ["endless", "refuse_endless_application"]


def endless(ahead: Mapping[int, Collection[int]]) -> set[int]:
    """The nodes of a graph from which a way leads on without end; others may be left out of it."""
    waiting = {node: len(targets) for node, targets in ahead.items()}
    behind: dict[int, list[int]] = {}
    for node, targets in ahead.items():
        for target in targets:
            behind.setdefault(target, []).append(node)
    # A node has an end when everything ahead of it has; cycles never get there.
    ended = [node for node in (*waiting, *behind) if not waiting.get(node)]
    for node in ended:
        for other in behind.pop(node, ()):
            waiting[other] -= 1
            if waiting[other] == 0:
                ended.append(other)
    return {node for node, count in waiting.items() if count}


def refuse_endless_application(places: Sequence[Formula], pointers: Sequence[str]) -> None:
    """Raise InvalidConstraintError for a place that comes back to itself without going into a
    member or an item.
    """
    ahead = {number: _in_place(formula) for number, formula in enumerate(places)}
    left = endless(ahead)
    if not left:
        return
    number = min(left)
    seen: set[int] = set()
    while number not in seen:
        seen.add(number)
        number = next(target for target in ahead[number] if target in left)
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
