"""What a schema asks of the members of objects and the items of arrays, as formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from guided.json_schema.formulas.assertions import (
    Contains,
    Has,
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
from guided.json_schema.reader.visit import Visit, counting

__all__ = ["ARRAY_FORMULAS", "OBJECT_FORMULAS", "item_schemas"]


def _members(visit: Visit) -> Formula:
    """``properties``, ``patternProperties`` and ``additionalProperties`` as one assertion.

    Not TRUE if names are listed, even if nothing is asked of their values: members are written
    in the order of ``named`` (``ObjectRules._open``).
    """
    keywords = visit.keywords
    named = tuple(
        (name, visit.apply(schema)) for name, schema in keywords.get("properties", {}).items()
    )
    patterns = tuple(
        (
            visit.lowering.regular(pattern, visit.pointer("patternProperties", pattern)),
            visit.apply(schema),
        )
        for pattern, schema in keywords.get("patternProperties", {}).items()
    )
    rest = visit.apply(keywords.get("additionalProperties", True))
    if rest is TRUE and not named and all(formula is TRUE for _, formula in patterns):
        return TRUE
    return visit.formulas.leaf(Members(named, patterns, rest))


def _names(visit: Visit) -> Formula:
    name = visit.apply(visit.keywords["propertyNames"])
    return TRUE if name is TRUE else visit.formulas.leaf(Names(name))


def _required(visit: Visit) -> Formula:
    return _has_all(visit, visit.keywords["required"])


def _dependencies(keyword: str) -> Callable[[Visit], Formula]:
    """A function that makes the formula of ``dependencies``, or of a keyword that it was split
    into.

    ``needed`` is a list of names or a schema; the check of its form has decided which of them a
    keyword may have.
    """

    def dependencies(visit: Visit) -> Formula:
        formulas = visit.formulas
        parts = []
        for name, needed in visit.keywords[keyword].items():
            absent = formulas.negate(formulas.leaf(Has(name)))
            if isinstance(needed, list):
                # "Has" holds of values that are no objects, and so does this.
                parts.append(formulas.any_of([absent, _has_all(visit, needed)]))
            else:
                other = formulas.leaf(Types(_NO_OBJECT))
                parts.append(formulas.any_of([absent, other, visit.apply(needed)]))
        return formulas.all_of(parts)

    return dependencies


def _has_all(visit: Visit, names: list[str]) -> Formula:
    return visit.formulas.all_of(visit.formulas.leaf(Has(name)) for name in names)


_NO_OBJECT: Final = frozenset(JsonType) - {JsonType.OBJECT}
OBJECT_FORMULAS: Mapping[str, Callable[[Visit], Formula]] = {
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties"), _members),
    "propertyNames": _names,
    **dict.fromkeys(
        ("minProperties", "maxProperties"),
        counting("minProperties", "maxProperties", MemberCount),
    ),
    "required": _required,
    **{
        keyword: _dependencies(keyword)
        for keyword in ("dependentRequired", "dependentSchemas", "dependencies")
    },
}
"""The formula of each keyword; keywords that make one formula together share a function."""


def item_schemas(keywords: dict[str, Json]) -> tuple[list[Json], Json]:
    """Return the schemas of the first items by position, and that of the further ones.

    Up to draft 2019-09 a list in ``items`` means what ``prefixItems`` means since, and
    ``additionalItems`` what ``items`` means; the list is read in the old way in any draft, as it
    has no other meaning. Both are parts of the schema, met by the survey, and not to be changed.
    """
    items = keywords.get("items", True)
    if isinstance(items, list):
        return items, keywords.get("additionalItems", True)
    return keywords.get("prefixItems", []), items


def _items(visit: Visit) -> Formula:
    """``prefixItems``, ``items`` and ``additionalItems`` as one assertion.

    Registered for all three keywords; TRUE if nothing is asked of any item.
    """
    first, further = item_schemas(visit.keywords)
    prefix = tuple(visit.apply(schema) for schema in first)
    rest = visit.apply(further)
    if rest is TRUE and all(formula is TRUE for formula in prefix):
        return TRUE
    return visit.formulas.leaf(Items(prefix, rest))


def _contains(visit: Visit) -> Formula:
    """``contains`` with its bounds, which mean nothing without it.

    Registered for all three keywords, so it is TRUE if ``contains`` is missing.
    """
    if "contains" not in visit.keywords:
        return TRUE
    item = visit.apply(visit.keywords["contains"])
    low = int(visit.keywords.get("minContains", 1))
    high = visit.keywords.get("maxContains")
    if low == 0 and high is None:
        return TRUE
    return visit.formulas.leaf(Contains(item, low, None if high is None else int(high)))


def _unique(visit: Visit) -> Formula:
    return visit.formulas.leaf(Unique()) if visit.keywords["uniqueItems"] else TRUE


ARRAY_FORMULAS: Mapping[str, Callable[[Visit], Formula]] = {
    **dict.fromkeys(("prefixItems", "items", "additionalItems"), _items),
    **dict.fromkeys(("minItems", "maxItems"), counting("minItems", "maxItems", ItemCount)),
    **dict.fromkeys(("contains", "minContains", "maxContains"), _contains),
    "uniqueItems": _unique,
}
"""The formula of each keyword; keywords that make one formula together share a function."""
