"""Formulas of the keywords about the members of objects and the items of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from guided.json_schema.formulas.assertions import (
    Contains,
    HasMember,
    ItemCount,
    Items,
    JsonType,
    MemberCount,
    Members,
    Names,
    Types,
    Unique,
)
from guided.json_schema.formulas.formula import TRUE, Formula
from guided.json_schema.formulas.values import Json
from guided.json_schema.reader.schema_context import SchemaContext, count_formula

__all__ = ["ARRAY_FORMULAS", "OBJECT_FORMULAS", "item_schemas"]


def _members(context: SchemaContext) -> Formula:
    """Return ``properties``, ``patternProperties`` and ``additionalProperties`` as one assertion.

    If ``properties`` names members, the result is not TRUE even if they may have any value: it also
    determines the order in which members are written.
    """
    keywords = context.keywords
    named = tuple(
        (name, context.apply(schema)) for name, schema in keywords.get("properties", {}).items()
    )
    patterns = tuple(
        (
            context.lowering.regular(pattern, context.pointer("patternProperties", pattern)),
            context.apply(schema),
        )
        for pattern, schema in keywords.get("patternProperties", {}).items()
    )
    rest = context.apply(keywords.get("additionalProperties", True))
    if rest is TRUE and not named and all(formula is TRUE for _, formula in patterns):
        return TRUE
    return context.formulas.leaf(Members(named, patterns, rest))


def _names(context: SchemaContext) -> Formula:
    name = context.apply(context.keywords["propertyNames"])
    return TRUE if name is TRUE else context.formulas.leaf(Names(name))


def _required(context: SchemaContext) -> Formula:
    return _requires_all(context, context.keywords["required"])


def _dependencies(keyword: str) -> Callable[[SchemaContext], Formula]:
    """Return the function that makes the formula of ``keyword``: ``dependencies`` or a later form.

    Each value is a list of names or a schema; which of them a keyword may have was checked before
    (``keywords.check_form``).
    """

    def dependencies(context: SchemaContext) -> Formula:
        formulas = context.formulas
        parts = []
        for name, needed in context.keywords[keyword].items():
            absent = formulas.negate(formulas.leaf(HasMember(name)))
            if isinstance(needed, list):
                # "HasMember" holds of values that are no objects, and so does this.
                parts.append(formulas.any_of([absent, _requires_all(context, needed)]))
            else:
                other = formulas.leaf(Types(_NO_OBJECT))
                parts.append(formulas.any_of([absent, other, context.apply(needed)]))
        return formulas.all_of(parts)

    return dependencies


def _requires_all(context: SchemaContext, names: list[str]) -> Formula:
    """Return the formula of values that have these members or are no objects."""
    return context.formulas.all_of(context.formulas.leaf(HasMember(name)) for name in names)


_NO_OBJECT: Final = frozenset(JsonType) - {JsonType.OBJECT}
OBJECT_FORMULAS: Mapping[str, Callable[[SchemaContext], Formula]] = {
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties"), _members),
    "propertyNames": _names,
    **dict.fromkeys(
        ("minProperties", "maxProperties"),
        count_formula("minProperties", "maxProperties", MemberCount),
    ),
    "required": _required,
    **{
        keyword: _dependencies(keyword)
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies")
    },
}
"""The formula of each keyword; keywords that make one formula together share a function."""


def item_schemas(keywords: dict[str, Json]) -> tuple[list[Json], Json]:
    """Return the schemas of the first items by position, and that of all further items.

    Up to draft 2019-09 a list in ``items`` means what ``prefixItems`` means since, and
    ``additionalItems`` what ``items`` means since. A list is read so in any draft, as it has no
    other meaning. Both results are parts of the schema, and must not be changed.
    """
    items = keywords.get("items", True)
    if isinstance(items, list):
        return items, keywords.get("additionalItems", True)
    return keywords.get("prefixItems", []), items


def _items(context: SchemaContext) -> Formula:
    """Return ``prefixItems``, ``items`` and ``additionalItems`` as an assertion for each list.

    TRUE if every item may have any value.
    """
    keywords = context.keywords
    lists = [item_schemas(keywords)]
    if isinstance(keywords.get("items"), list):
        # A schema for readers of several drafts may have both lists: each is enforced.
        lists.append((keywords.get("prefixItems", []), True))
    return context.formulas.all_of(_items_fit(context, *each) for each in lists)


def _items_fit(context: SchemaContext, first: list[Json], further: Json) -> Formula:
    """Return that items fit ``first`` by position, and later ones ``further``; TRUE if all may."""
    prefix = tuple(context.apply(schema) for schema in first)
    rest = context.apply(further)
    if rest is TRUE and all(formula is TRUE for formula in prefix):
        return TRUE
    return context.formulas.leaf(Items(prefix, rest))


def _contains(context: SchemaContext) -> Formula:
    """Return the assertion of ``contains`` with its bounds; TRUE if there are only the bounds."""
    if "contains" not in context.keywords:
        return TRUE
    item = context.apply(context.keywords["contains"])
    low = int(context.keywords.get("minContains", 1))
    high = context.keywords.get("maxContains")
    if low == 0 and high is None:
        return TRUE
    return context.formulas.leaf(Contains(item, low, None if high is None else int(high)))


def _unique(context: SchemaContext) -> Formula:
    return context.formulas.leaf(Unique()) if context.keywords["uniqueItems"] else TRUE


ARRAY_FORMULAS: Mapping[str, Callable[[SchemaContext], Formula]] = {
    **dict.fromkeys(("prefixItems", "items", "additionalItems"), _items),
    **dict.fromkeys(("minItems", "maxItems"), count_formula("minItems", "maxItems", ItemCount)),
    **dict.fromkeys(("contains", "minContains", "maxContains"), _contains),
    "uniqueItems": _unique,
}
"""The formula of each keyword; keywords that make one formula together share a function."""
