"""What objects and arrays have in common: the formulas of the next value, and their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from guided.json_schema.formulas.assertions import Contains, ItemCount, MemberCount
from guided.json_schema.formulas.formula import FALSE, TRUE, Formula, Formulas, Leaf, conjuncts
from guided.runtime.work_budget import spend

__all__ = ["ValueFormulas", "decrement_count", "derive_value_formulas", "replace_leaves"]


class ValueFormulas(NamedTuple):
    """The formulas asked of a value; see ``stacks.AwaitedValue`` for the fields."""

    formulas: tuple[Formula, ...]
    required: bool
    dependent_assertions: tuple[tuple[Leaf, int], ...]


def derive_value_formulas(
    goals: tuple[Formula, ...],
    universal: Sequence[tuple[Leaf, Formula]],
    counting: Sequence[tuple[Leaf, Formula]],
    formulas: Formulas,
    *,
    required: bool,
) -> tuple[ValueFormulas, list[Leaf]]:
    """Return the formulas to ask of a container's next value, and the assertions that must fail.

    Of the assertions in the ``goals`` of the container's frame, ``universal`` are those about each
    value, ``counting`` those that count the values that fit, both with the formula that they ask of
    this value. If ``required``, the only goal has to hold, and all that it asks of the value in any
    case becomes the first formula. If that is FALSE no value fits, which the caller has to check.
    The others are in the order in which they first occur, each linked to its assertions. Of
    assertions that are neither linked nor failed, a universal one holds of any value that is
    written, and a counting one counts it if its formula is TRUE.
    """
    # The conjuncts of the goal have to hold, so what they ask of the value is required. All other
    # assertions depend on a formula, and hold or fail with it.
    demanded = set(conjuncts(goals[0])) if required else set()
    first = formulas.all_of(formula for leaf, formula in universal if leaf in demanded)
    # What is required holds of every value that is written, so it need not be asked again.
    implied = set(conjuncts(first)) if required and first is not TRUE else set()
    index_by_formula: dict[Formula, int] = {first: 0} if required else {}
    dependent: list[tuple[Leaf, int]] = []
    failed: list[Leaf] = []
    for leaf, formula in universal:
        if leaf in demanded or formula is TRUE or formula in implied:
            continue
        if formula is FALSE:
            failed.append(leaf)
        else:
            dependent.append((leaf, index_by_formula.setdefault(formula, len(index_by_formula))))
    for leaf, formula in counting:
        if formula in implied:
            dependent.append((leaf, 0))
        elif formula is not TRUE and formula is not FALSE:
            dependent.append((leaf, index_by_formula.setdefault(formula, len(index_by_formula))))
    # A value always has a formula, or there would be no truth vector to accept.
    if not index_by_formula:
        return ValueFormulas((TRUE,), required=True, dependent_assertions=()), failed
    return ValueFormulas(
        tuple(index_by_formula), required=required, dependent_assertions=tuple(dependent)
    ), failed


def decrement_count(assertion: MemberCount | ItemCount | Contains, formulas: Formulas) -> Formula:
    """Return what is left of a counting assertion after one more of what it counts.

    FALSE if it was one too many, TRUE if any further number is right.
    """
    high = None if assertion.high is None else assertion.high - 1
    low = max(assertion.low - 1, 0)
    if high is not None and high < 0:
        return FALSE
    return (
        TRUE if low == 0 and high is None else formulas.leaf(replace(assertion, low=low, high=high))
    )


def replace_leaves(
    formulas: Formulas, goals: tuple[Formula, ...], by: dict[Leaf, Formula]
) -> tuple[Formula, ...]:
    """Return the goals with each assertion in ``by`` replaced by what is left of it.

    Other assertions stay. Goals keep their indices, by which truth vectors refer to them.
    """
    if not by:
        return goals
    spend(len(goals) + len(by))
    return tuple(
        formulas.replace(goal, lambda leaf: by.get(leaf, leaf))  # type: ignore[arg-type]
        for goal in goals
    )
