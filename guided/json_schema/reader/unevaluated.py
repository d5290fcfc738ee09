"""Formulas of ``unevaluatedProperties`` and ``unevaluatedItems``.

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
from guided.json_schema.reader.schema_context import SchemaContext
from guided.regular.dfa import dfa_from_regular
from guided.regular.expression import Regular
from guided.runtime.work_budget import spend

__all__ = ["UNEVALUATED_FORMULAS"]

_T = TypeVar("_T")
MAX_CASES: Final = 512
"""The most sets of conditions that are distinguished for one keyword."""
MAX_CONDITIONS: Final = 10_000
"""The most schemas applied in place, counted once for each condition."""


def _properties(context: SchemaContext) -> Formula:
    """Return the formula of ``unevaluatedProperties``; ``rest`` is that of unevaluated members.

    ``names``, ``patterns`` and ``everything`` have the conditions under which some schema evaluates
    a member of that name, members whose names a pattern matches, or all members. TRUE if ``rest``
    is, or if all members are evaluated in any case.
    """
    rest = context.apply(context.keywords["unevaluatedProperties"])
    names: dict[str, list[Formula]] = {}
    patterns: dict[Regular, list[Formula]] = {}
    everything: list[Formula] = []
    for condition, applied in _evaluators(context, "unevaluatedProperties"):
        keywords = applied.keywords
        here, matching = keywords.get("properties", ()), keywords.get("patternProperties", ())
        spend(len(here) + len(matching))
        for name in here:
            names.setdefault(name, []).append(condition)
        for pattern in matching:
            pointer = applied.pointer("patternProperties", pattern)
            patterns.setdefault(applied.lowering.regular(pattern, pointer), []).append(condition)
        # A schema applied here evaluates all that its own ``unevaluatedProperties`` looks at; that
        # of ``context`` is the keyword whose formula is made.
        if "additionalProperties" in keywords or (
            applied is not context and "unevaluatedProperties" in keywords
        ):
            everything.append(condition)
    formulas = context.formulas
    if rest is TRUE or TRUE in everything:
        return TRUE

    matched = {pattern: _matching_names(pattern, names) for pattern in patterns}
    named = tuple((name, TRUE) for name in names)
    sometimes = {name: held for name, held in names.items() if TRUE not in held}

    def with_patterns(evaluated: Sequence[Regular]) -> Iterator[Formula]:
        """Yield the formulas that must hold if only the ``evaluated`` patterns evaluate members.

        First for members that no schema names: they fit ``rest``, unless one of the patterns
        matches their names. Then, for each name that is not evaluated in any case: the member fits
        ``rest``, or one of the conditions holds under which it is evaluated by name. ``_cases``
        joins these formulas by "and", and the cases by "or".
        """
        matches = tuple((pattern, TRUE) for pattern in evaluated)
        yield formulas.leaf(Members(named, matches, rest))
        for name, conditions in sometimes.items():
            if not any(name in matched[p] for p in evaluated):
                unevaluated = formulas.leaf(Members(((name, rest),), (), TRUE))
                yield formulas.any_of([unevaluated, *conditions])

    units = len(named) + len(sometimes)
    cases = _cases(patterns, with_patterns, units, context, "unevaluatedProperties")
    return formulas.any_of([*everything, *cases])


def _items(context: SchemaContext) -> Formula:
    """Return the formula of ``unevaluatedItems``; ``rest`` is that of unevaluated items.

    ``lengths`` has the conditions under which so many first items are evaluated; ``contained``
    those under which ``contains`` evaluates the items that fit a formula. ``ends`` are the indices
    at which the conditions change, 0 among them. TRUE in the same cases as for members.
    """
    rest = context.apply(context.keywords["unevaluatedItems"])
    lengths: dict[int, list[Formula]] = {0: [TRUE]}
    contained: dict[Formula, list[Formula]] = {}
    everything: list[Formula] = []
    for condition, applied in _evaluators(context, "unevaluatedItems"):
        keywords = applied.keywords
        # There may be both lists, see ``container_keywords._items``.
        by_position = max(item_schemas(keywords)[0], keywords.get("prefixItems", []), key=len)
        lengths.setdefault(len(by_position), []).append(condition)
        if "contains" in keywords and _contains_evaluates(applied):
            contained.setdefault(applied.apply(keywords["contains"]), []).append(condition)
        if _evaluates_all_items(applied) or (
            applied is not context and "unevaluatedItems" in keywords
        ):
            everything.append(condition)
    formulas = context.formulas
    if rest is TRUE or TRUE in everything:
        return TRUE
    ends = sorted(lengths)
    by_index = (TRUE,) * ends[-1]

    def with_contained(evaluated: Sequence[Formula]) -> Iterator[Formula]:
        """Yield the formulas that must hold if only the ``evaluated`` formulas evaluate items.

        ``other`` is the formula of an item that is not evaluated by its index. The first formula is
        about the items after all that some schema evaluates by index. Then there is one for each
        run of items that are evaluated under the same conditions: they fit ``other``, or one of
        these conditions holds.
        """
        other = formulas.any_of([rest, *evaluated])
        yield formulas.leaf(Items(by_index, other))
        for start, end in pairwise(ends):
            conditions = [c for length in ends if length >= end for c in lengths[length]]
            if TRUE not in conditions:
                between = (TRUE,) * start + (other,) * (end - start)
                yield formulas.any_of([formulas.leaf(Items(between, TRUE)), *conditions])

    cases = _cases(contained, with_contained, sum(ends), context, "unevaluatedItems")
    return formulas.any_of([*everything, *cases])


def _evaluates_all_items(context: SchemaContext) -> bool:
    """Return whether the keywords that apply schemas by index do so to all items."""
    keywords = context.keywords
    if isinstance(keywords.get("items"), list):
        return "additionalItems" in keywords
    return "items" in keywords


def _contains_evaluates(context: SchemaContext) -> bool:
    """Return whether the items that fit ``contains`` are evaluated, as since draft 2020-12."""
    return context.location.resource.dialect.draft >= Draft.DRAFT_2020_12


def _evaluators(context: SchemaContext, keyword: str) -> Iterator[tuple[Formula, SchemaContext]]:
    """Yield each schema that may evaluate members or items of the same value, and its condition.

    The schema of ``context`` comes first, under the condition TRUE. A schema may occur several
    times, under different conditions. References are followed, even through cycles: equal
    conditions are one formula, so a cycle comes back to a pair in ``seen``. Raises
    LimitExceededError past MAX_CONDITIONS.
    """
    formulas = context.formulas
    seen: set[tuple[Formula, Formula]] = set()
    stack: list[tuple[Formula, SchemaContext]] = [(TRUE, context)]
    while stack:
        condition, applied = stack.pop()
        # Only the schema's node, which stands for it in its scope: nothing is lowered for this.
        key = (condition, applied.formula(applied))
        if key in seen:
            continue
        seen.add(key)
        if len(seen) > MAX_CONDITIONS:
            raise LimitExceededError(
                f"{keyword} depends on more than {MAX_CONDITIONS} conditions",
                limit=MAX_CONDITIONS,
                pointer=context.pointer(keyword),
            )
        spend(10)
        yield condition, applied
        stack += (
            (formulas.all_of([condition, further]), inner)
            for further, inner in applied.in_place_applicators()
            if not isinstance(inner, bool)
        )


def _cases(
    conditions_by_item: Mapping[_T, Sequence[Formula]],
    formulas_for: Callable[[Sequence[_T]], Iterable[Formula]],
    units: int,
    context: SchemaContext,
    keyword: str,
) -> Iterator[Formula]:
    """Yield a formula for each set of patterns or formulas that may evaluate; one has to hold.

    ``conditions_by_item`` has the conditions under which each of them evaluates; one with TRUE
    among them is part of every set. The formula of a set says that one of the conditions of each
    holds, and what ``formulas_for`` returns for the set, which takes about ``units`` of work. It
    does not say that the others do not evaluate: they would evaluate more, so a formula without
    them is only stricter. ``context`` and ``keyword`` are for errors: LimitExceededError past
    MAX_CASES.

    The smallest set comes first: its formula names all members, and an object takes the order of
    its names from where formulas first name them.
    """
    always = [item for item, conditions in conditions_by_item.items() if TRUE in conditions]
    sometimes = [item for item, conditions in conditions_by_item.items() if TRUE not in conditions]
    if 2 ** len(sometimes) > MAX_CASES:
        raise LimitExceededError(
            f"{keyword} depends on {len(sometimes)} conditions, which make more than {MAX_CASES} "
            "cases",
            limit=MAX_CASES,
            pointer=context.pointer(keyword),
            hint="name the members instead of giving patterns, or write fewer alternatives",
        )
    formulas = context.formulas
    for size in range(len(sometimes) + 1):
        for chosen in combinations(sometimes, size):
            spend(units)
            hold = [formulas.any_of(conditions_by_item[item]) for item in chosen]
            yield formulas.all_of([*hold, *formulas_for([*always, *chosen])])


def _matching_names(pattern: Regular, names: Iterable[str]) -> frozenset[str]:
    """Return the names in which a pattern matches."""
    dfa = dfa_from_regular(pattern, search=True)
    return frozenset(name for name in names if dfa.accepts(name))


UNEVALUATED_FORMULAS: Mapping[str, Callable[[SchemaContext], Formula]] = {
    "unevaluatedProperties": _properties,
    "unevaluatedItems": _items,
}
