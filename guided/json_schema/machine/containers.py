"""What objects and arrays have in common: the asks of the next value, and deciding assertions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from guided.json_schema.formulas.assertions import Contains, ItemCount, MemberCount
from guided.json_schema.formulas.formula import FALSE, TRUE, AllOf, Formula, Formulas, Leaf
from guided.runtime.fuel import spend

__all__ = ["Asked", "asked_of", "one_fewer", "replaced"]


class Asked:
    """Formulas asked of a value; see ``stacks.Pending`` for the fields."""

    __slots__ = ("asks", "links", "must")

    def __init__(
        self, asks: tuple[Formula, ...], must: bool, links: tuple[tuple[Leaf, int], ...]
    ) -> None:
        self.asks: Final = asks
        self.must: Final = must
        self.links: Final = links


def asked_of(
    goals: tuple[Formula, ...],
    every: Sequence[tuple[Leaf, Formula]],
    some: Sequence[tuple[Leaf, Formula]],
    formulas: Formulas,
    *,
    must: bool,
) -> tuple[Asked, list[Leaf]]:
    """Return what to ask of a value, and which assertions fail whatever it is.

    ``every`` are assertions with what they ask of each value, ``some`` those that only count the
    values that fit. What has to hold in any case, if the container is to fit, becomes one ask: with
    ``must`` it is the first. Without a link, an assertion in ``every`` that has not failed holds of
    the value, and one in ``some`` counts it only if it asks for TRUE. The asks are in the order in
    which they first come up, and links number them so.
    """
    # The assertions that the goal names outright must hold: what they ask is due, whatever the
    # value decides otherwise. All others are only linked to a formula, whose truth decides them.
    certain: set[Formula] = set()
    if must:
        goal = goals[0]
        certain.update(goal.parts if isinstance(goal, AllOf) else (goal,))
    due = formulas.all_of(child for leaf, child in every if leaf in certain)
    # What is due holds of every value that is written, so it need not be asked again.
    known: set[Formula] = set()
    if must and due is not TRUE:
        known.update(due.parts if isinstance(due, AllOf) else (due,))
    asks: dict[Formula, int] = {due: 0} if must else {}
    links: list[tuple[Leaf, int]] = []
    failed: list[Leaf] = []
    for leaf, child in every:
        if leaf in certain or child is TRUE or child in known:
            continue
        if child is FALSE:
            failed.append(leaf)
        else:
            links.append((leaf, asks.setdefault(child, len(asks))))
    for leaf, child in some:
        if child in known:
            links.append((leaf, 0))
        elif child is not TRUE and child is not FALSE:
            links.append((leaf, asks.setdefault(child, len(asks))))
    # A value always has an ask, or there would be no truth vector to accept.
    if not asks:
        return Asked((TRUE,), must=True, links=()), failed
    return Asked(tuple(asks), must=must, links=tuple(links)), failed


def one_fewer(about: MemberCount | ItemCount | Contains, formulas: Formulas) -> Formula:
    """Return what is left of a count after one more of what it counts.

    FALSE if it was one too many, TRUE if nothing is left to count.
    """
    high = None if about.high is None else about.high - 1
    low = max(about.low - 1, 0)
    if high is not None and high < 0:
        return FALSE
    return TRUE if low == 0 and high is None else formulas.leaf(replace(about, low=low, high=high))


def replaced(
    formulas: Formulas, goals: tuple[Formula, ...], by: dict[Leaf, Formula]
) -> tuple[Formula, ...]:
    """Return what is left of goals after some assertions are decided, or brought nearer to that.

    Assertions that are not in ``by`` stay; goals keep their places, by which truth vectors refer to
    them.
    """
    if not by:
        return goals
    spend(len(goals) + len(by))
    return tuple(
        formulas.replace(goal, lambda leaf: by.get(leaf, leaf))  # type: ignore[arg-type]
        for goal in goals
    )
