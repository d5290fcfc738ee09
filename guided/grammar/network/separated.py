"""Lists in the bodies of rules, ``x (s x)*``, of which one copy of ``x`` is enough."""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Final

from guided.grammar.context_free import Body, Sequence, Times

__all__ = ["Separated", "with_lists"]


class Separated:
    """``item``, once or more, with ``between`` between one and the next."""

    __slots__ = ("between", "item")

    def __init__(self, item: Sequence, between: Sequence) -> None:
        self.item: Final = item
        self.between: Final = between


def with_lists(parts: tuple[Body, ...]) -> Items[Body | Separated]:
    """The parts of a sequence, with lists told from other repeats."""
    found: list[Body | Separated] = []
    for part in parts:
        if found and isinstance(part, Times) and part.low == 0 and part.high is None:
            again = part.item.parts if isinstance(part.item, Sequence) else (part.item,)
            common = 0
            while common < min(len(found), len(again)) and found[~common] == again[~common]:
                common += 1
            if common:
                at = len(again) - common
                found[len(found) - common :] = [
                    Separated(Sequence(again[at:]), Sequence(again[:at]))
                ]
                continue
        found.append(part)
    return found
