"""Sets: items that have a hash, and that stay different when they are read."""

from __future__ import annotations

from typing import Any

from guided.response_types.numbers import distinct

__all__ = ["set_items"]

# One spelling of each value, where a type has several.
_ONE_SPELLING = {
    "date-time": r"^[^.]*Z$",
    "time": r"^[^.]*Z$",
    "duration": r"^PT(?:0|[1-9]\d{0,8})S$",
    "ipv6": "^(?:[0-9a-f]{4}:){7}[0-9a-f]{4}$",
    "ipvanyaddress": r"^\d",
}


def set_items(array: dict[str, Any]) -> dict[str, Any]:
    """The schema of a set, narrowed in place.

    Where a least number of items is asked for, those that pydantic would read as equal are left
    out: it counts what is left of ``[1, true]`` or ``[0.1, 0.10000000000000000001]``.
    """
    if not array["items"]:
        array["items"] = {"type": ["string", "number", "null"]}
    if array.get("minItems", 0) > 1:
        array["items"] = _distinct(array["items"])
    return array


def _distinct(item: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in item:
        choices = [_distinct(choice) for choice in item["anyOf"]]
        if any(choice.get("type") in ("integer", "number") for choice in choices):
            choices = [choice for choice in choices if choice.get("type") != "boolean"]
        return {**item, "anyOf": choices}
    spelling = _ONE_SPELLING.get(item.get("format", ""))
    if spelling is not None:
        return {**item, "allOf": [*item.get("allOf", []), {"pattern": spelling}]}
    kind = item.get("type")
    return distinct(item) if kind == "number" or isinstance(kind, list) else item
