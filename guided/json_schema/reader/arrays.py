"""What a schema says about the items of arrays, as formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from guided.json_schema.formulas.assertions import Contains, ItemCount, Items, Unique
from guided.json_schema.formulas.formula import TRUE, Formula
from guided.json_schema.reader.reader import Json
from guided.json_schema.reader.visit import Visit

__all__ = ["ARRAY_FORMULAS", "item_schemas"]


def item_schemas(keywords: dict[str, Json]) -> tuple[list[Json], Json]:
    """The schemas of the first items by position, and that of the further ones.

    Up to draft 2019-09 a list of ``items`` and ``additionalItems`` are what ``prefixItems`` and
    ``items`` are since; the list is read in the old way in any draft, where it means nothing else.
    """
    items = keywords.get("items", True)
    if isinstance(items, list):
        return items, keywords.get("additionalItems", True)
    return keywords.get("prefixItems", []), items


def _items(visit: Visit) -> Formula:
    first, further = item_schemas(visit.keywords)
    prefix = tuple(visit.apply(schema) for schema in first)
    rest = visit.apply(further)
    if rest is TRUE and all(formula is TRUE for formula in prefix):
        return TRUE
    return visit.formulas.leaf(Items(prefix, rest))


def _count(visit: Visit) -> Formula:
    low = int(visit.keywords.get("minItems", 0))
    high = visit.keywords.get("maxItems")
    if low == 0 and high is None:
        return TRUE
    return visit.formulas.leaf(ItemCount(low, None if high is None else int(high)))


def _contains(visit: Visit) -> Formula:
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
    "minItems": _count,
    "maxItems": _count,
    **dict.fromkeys(("contains", "minContains", "maxContains"), _contains),
    "uniqueItems": _unique,
}
"""The formula of each keyword; keywords that make one formula together share a function."""
