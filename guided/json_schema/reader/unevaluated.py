"""``unevaluatedProperties`` and ``unevaluatedItems``, as formulas.

What was evaluated depends on which of the schemas applied in place hold: the branches of ``anyOf``,
for example. Every such schema evaluates something *under a condition*, and more conditions never
evaluate less. So each member that some schema evaluates has a separate rule, "it fits what
unevaluated members have to fit, or one of the conditions holds", and no combination of branches is
ever written out:

    {"anyOf": [{"properties": {"a": …}}, {"properties": {"b": …}}], "unevaluatedProperties": false}

becomes: no member but a and b; and no member a, or the first branch holds; and no member b, or the
second does. Only patterns and ``contains``, which evaluate what is not known by name or position,
need a case for each set of conditions.

Source: JSON Schema 2020-12, core, sections 11.2 and 11.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Final, TypeVar

from guided.errors import LimitExceededError
from guided.json_schema.formulas.assertions import Items, Members
from guided.json_schema.formulas.formula import TRUE, Formula
from guided.json_schema.reader.container_keywords import item_schemas
from guided.json_schema.reader.keywords import Draft
from guided.json_schema.reader.visit import Visit
from guided.regular.dfa import dfa_from_regular
from guided.regular.expression import Regular
from guided.runtime.fuel import spend

__all__ = ["UNEVALUATED_FORMULAS"]

_T = TypeVar("_T")
MAX_CASES: Final = 512
"""Sets of conditions that are distinguished for one keyword."""
MAX_CONDITIONS: Final = 10_000
"""Schemas applied in place under different conditions."""


def _properties(visit: Visit) -> Formula:
    """Yield the formula of ``unevaluatedProperties``.

    ``rest`` is what unevaluated members have to fit. ``names``, ``patterns`` and ``everything``
    have the conditions under which some schema evaluates a member of that name, members whose names
    a pattern matches, or all members. TRUE if ``rest`` asks for nothing, or if all members
    are evaluated in any case.
    """
    rest = visit.apply(visit.keywords["unevaluatedProperties"])
    names: dict[str, list[Formula]] = {}
    patterns: dict[Regular, list[Formula]] = {}
    everything: list[Formula] = []
    for condition, applied in _evaluators(visit, "unevaluatedProperties"):
        keywords = applied.keywords
        for name in keywords.get("properties", ()):
            names.setdefault(name, []).append(condition)
        for pattern in keywords.get("patternProperties", ()):
            at = applied.pointer("patternProperties", pattern)
            patterns.setdefault(applied.lowering.regular(pattern, at), []).append(condition)
        if "additionalProperties" in keywords or (
            applied is not visit and "unevaluatedProperties" in keywords
        ):
            everything.append(condition)
    formulas = visit.formulas
    if rest is TRUE or TRUE in everything:
        return TRUE

    found = {pattern: _found_in(pattern, names) for pattern in patterns}

    def with_patterns(evaluated: Sequence[Regular]) -> Iterator[Formula]:
        """Yield everything that must hold if the ``evaluated`` patterns evaluate and no others do.

        First for members that no schema names: they fit ``rest``, unless one of the patterns
        matches their names. Then, for each name that is not evaluated in any case: the member fits
        ``rest``, or one of the conditions holds under which it is evaluated by name. ``_cases``
        joins these formulas by "and", and the cases by "or".
        """
        yield formulas.leaf(
            Members(
                tuple((name, TRUE) for name in names),
                tuple((pattern, TRUE) for pattern in evaluated),
                rest,
            )
        )
        for name, conditions in names.items():
            if TRUE not in conditions and not any(name in found[p] for p in evaluated):
                unevaluated = formulas.leaf(Members(((name, rest),), (), TRUE))
                yield formulas.any_of([unevaluated, *conditions])

    cases = _cases(patterns, with_patterns, visit, "unevaluatedProperties")
    return formulas.any_of([*everything, *cases])


def _items(visit: Visit) -> Formula:
    """Yield the formula of ``unevaluatedItems``.

    ``lengths`` has by a number of first items the conditions under which these are evaluated;
    ``contained`` those under which ``contains`` evaluates the items that fit a formula. ``ends``
    are the places where the conditions change; 0 is always among them. TRUE as for ``_properties``.
    """
    rest = visit.apply(visit.keywords["unevaluatedItems"])
    lengths: dict[int, list[Formula]] = {0: [TRUE]}
    contained: dict[Formula, list[Formula]] = {}
    everything: list[Formula] = []
    for condition, applied in _evaluators(visit, "unevaluatedItems"):
        keywords = applied.keywords
        lengths.setdefault(len(item_schemas(keywords)[0]), []).append(condition)
        if "contains" in keywords and _contains_evaluates(applied):
            contained.setdefault(applied.apply(keywords["contains"]), []).append(condition)
        if _evaluates_all_items(applied) or (
            applied is not visit and "unevaluatedItems" in keywords
        ):
            everything.append(condition)
    formulas = visit.formulas
    if rest is TRUE or TRUE in everything:
        return TRUE
    ends = sorted(lengths)
    spend(sum(ends))

    def with_contained(evaluated: Sequence[Formula]) -> Iterator[Formula]:
        """Everything that has to hold if the ``evaluated`` formulas evaluate items and no others
        do.

        ``other`` is what an item fits that is not evaluated by its place. First for the items after
        all that some schema evaluates by place; then for each run of items that are evaluated under
        the same conditions: they fit ``other``, or one of these conditions holds.
        """
        other = formulas.any_of([rest, *evaluated])
        yield formulas.leaf(Items((TRUE,) * ends[-1], other))
        for start, end in pairwise(ends):
            conditions = [c for length in ends if length >= end for c in lengths[length]]
            if TRUE not in conditions:
                between = (TRUE,) * start + (other,) * (end - start)
                yield formulas.any_of([formulas.leaf(Items(between, TRUE)), *conditions])

    cases = _cases(contained, with_contained, visit, "unevaluatedItems")
    return formulas.any_of([*everything, *cases])


def _evaluates_all_items(visit: Visit) -> bool:
    keywords = visit.keywords
    if isinstance(keywords.get("items"), list):
        return "additionalItems" in keywords
    return "items" in keywords


def _contains_evaluates(visit: Visit) -> bool:
    return visit.location.resource.dialect.draft >= Draft.DRAFT_2020_12


def _evaluators(visit: Visit, keyword: str) -> Iterator[tuple[Formula, Visit]]:
    """Yield each schema that evaluates members or items of the same value, and its condition.

    The schema of ``visit`` comes first, under the condition TRUE. A schema may occur several times,
    under different conditions. Formulas are those of ``visit.formulas``, so conditions are compared
    by identity. It follows references, which may lead in a circle, which ``seen`` breaks.
    """
    formulas = visit.formulas
    seen: set[tuple[Formula, Formula]] = set()
    stack: list[tuple[Formula, Visit]] = [(TRUE, visit)]
    while stack:
        condition, applied = stack.pop()
        key = (condition, applied.formula(applied))
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > MAX_CONDITIONS:
            raise LimitExceededError(
                f"{keyword} depends on more than {MAX_CONDITIONS} conditions",
                limit=MAX_CONDITIONS,
                pointer=visit.pointer(keyword),
            )
        spend(10)
        yield condition, applied
        stack += (
            (formulas.all_of([condition, further]), inner) for further, inner in applied.in_place()
        )


def _cases(
    found: Mapping[_T, Sequence[Formula]],
    formula: Callable[[Sequence[_T]], Iterable[Formula]],
    visit: Visit,
    keyword: str,
) -> Iterator[Formula]:
    """Yield a case for each set of things that are found only under a condition.

    ``found`` has the conditions of each thing; one with TRUE among them is part of every case. A
    case says that the chosen things are found (one of the conditions of each holds), and all that
    ``formula`` says about them. It does not say that the others are not found: they would evaluate
    more, so a case without them is only stricter. The whole is any of the cases.
    """
    always = [thing for thing, conditions in found.items() if TRUE in conditions]
    sometimes = [thing for thing, conditions in found.items() if TRUE not in conditions]
    if 2 ** len(sometimes) > MAX_CASES:
        raise LimitExceededError(
            f"{keyword} depends on {len(sometimes)} conditions, which make more than {MAX_CASES} "
            "cases",
            limit=MAX_CASES,
            pointer=visit.pointer(keyword),
            hint="name the members instead of giving patterns, or write fewer alternatives",
        )
    formulas = visit.formulas
    for size in range(len(sometimes) + 1):
        for chosen in combinations(sometimes, size):
            hold = [formulas.any_of(found[thing]) for thing in chosen]
            yield formulas.all_of([*hold, *formula([*always, *chosen])])


def _found_in(pattern: Regular, names: Iterable[str]) -> frozenset[str]:
    """Return the names in which a pattern matches."""
    dfa = dfa_from_regular(pattern, search=True)
    return frozenset(name for name in names if dfa.accepts(name))


UNEVALUATED_FORMULAS: Mapping[str, Callable[[Visit], Formula]] = {
    "unevaluatedProperties": _properties,
    "unevaluatedItems": _items,
}
