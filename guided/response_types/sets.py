"""Schemas of sets: of items that are hashable, and that stay different when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guided.response_types.core_schema import CoreSchema, parts
from guided.response_types.numbers import limit_digits

__all__ = ["has_hash", "narrow_set", "stays_distinct"]

_WITHOUT_HASH = frozenset(
    {"any", "list", "set", "dict", "deque", "ordered-dict", "counter", "typed-dict", "generator"}
)


def has_hash(schema: CoreSchema, definitions: Mapping[str, CoreSchema]) -> bool:
    """Return whether every value of a core schema is hashable.

    ``definitions`` are the core schemas that it may refer to. The result of a user's function
    counts as hashable if its input is.
    """
    return _HashCheck(definitions).check(schema)


class _HashCheck:
    """Computes ``has_hash``; recursive definitions are visited once."""

    def __init__(self, definitions: Mapping[str, CoreSchema]) -> None:
        self.definitions = definitions
        self.visited: set[str] = set()
        """Names of the definitions visited so far."""

    def check(self, schema: CoreSchema) -> bool:
        kind = schema["type"]
        match kind:
            case _ if kind in _WITHOUT_HASH:
                return False
            case "definition-ref":
                return self._has_definition(schema["schema_ref"])
            case "frozenset":
                return True
            case "model" | "dataclass":
                owner = schema["cls"]
                return owner.__hash__ is not None and (
                    owner.__hash__ is object.__hash__ or self.check(schema["schema"])
                )
            case "json" if "schema" not in schema:
                return False
            case "json-or-python":
                # The Python side says what the JSON becomes: NameEmail has no hash.
                return self.check(schema["json_schema"]) and self.check(schema["python_schema"])
            case "is-instance":
                return getattr(schema["cls"], "__hash__", None) is not None
            case "chain":
                return self.check(schema["steps"][-1])
        return all(self.check(part) for part, _ in parts(schema))

    def _has_definition(self, name: str) -> bool:
        if name in self.visited:
            return True
        self.visited.add(name)
        return name not in self.definitions or self.check(self.definitions[name])


# One spelling of each value, for types with several.
_ONE_SPELLING = {
    "date-time": r"^[^.]*Z$",
    "time": r"^[^.]*Z$",
    "duration": r"^PT(?:0|[1-9]\d{0,8})S$",
    "ipv6": "^(?:[0-9a-f]{4}:){7}[0-9a-f]{4}$",
    "ipvanyaddress": r"^\d",
}


def narrow_set(array: dict[str, Any]) -> dict[str, Any]:
    """Narrow the schema of a set in place, so that its number of items is what pydantic counts.

    If a least number of items is required, items that pydantic would read as equal are excluded: it
    counts what is left of ``[1, true]`` or ``[0.1, 0.10000000000000000001]``. For some types that
    cannot be expressed; ``stays_distinct`` returns which.
    """
    if not array["items"]:
        array["items"] = {"type": ["string", "number", "null"]}
    if array.get("minItems", 0) > 1:
        (array["items"],) = _without_repeats([_without_python_equals(array["items"])])
    return array


_ONE_TEXT = frozenset(
    {"none", "int", "bool", "float", "decimal", "date", "datetime", "time", "timedelta"}
    | {"uuid", "bytes", "enum", "literal"}
)
_COMPOUND = frozenset({"nullable", "union", "default"})


def stays_distinct(schema: CoreSchema) -> bool:
    """Return whether values of a core schema that differ in JSON are read as different values."""
    kind = schema["type"]
    if kind == "str":
        return not any(schema.get(f"to_{case}") for case in ("lower", "upper"))
    if kind == "union":
        # Numbers of several types, like those of Python itself, may be equal.
        kinds = [part["type"] for part, _ in parts(schema)]
        if len({"float", "decimal", "enum", "literal"} & {*kinds}) > 1:
            return False
    if kind == "any" or kind in _ONE_TEXT:
        return True
    return kind in _COMPOUND and all(stays_distinct(part) for part, _ in parts(schema))


def _without_python_equals(item: dict[str, Any], *, beside_numbers: bool = False) -> dict[str, Any]:
    """Return an item's schema without values that are equal in Python, as ``True`` and ``1``."""
    if "anyOf" in item:
        choices = item["anyOf"]
        if any(choice.get("type") in ("integer", "number") for choice in choices):
            beside_numbers = True
            choices = [choice for choice in choices if choice.get("type") != "boolean"]
        choices = [
            _without_python_equals(choice, beside_numbers=beside_numbers) for choice in choices
        ]
        return {**item, "anyOf": _without_repeats(choices)}
    if "enum" in item:
        values = [each for each in item["enum"] if not (beside_numbers and isinstance(each, bool))]
        return {**item, "enum": values}
    if "const" in item:
        return {"not": {}} if beside_numbers and isinstance(item["const"], bool) else item
    spelling = _ONE_SPELLING.get(item.get("format", ""))
    if spelling is not None:
        return {**item, "allOf": [*item.get("allOf", []), {"pattern": spelling}]}
    kind = item.get("type")
    return limit_digits(item) if kind == "number" or isinstance(kind, list) else item


def _without_repeats(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the choices without values equal, in Python, to one in a choice before."""
    seen: list[Any] = []
    found: list[dict[str, Any]] = []
    for choice in choices:
        listed = choice.get("enum", [choice["const"]] if "const" in choice else None)
        if listed is None:
            found.append(choice)
            continue
        kept = []
        for value in listed:
            if value not in seen:
                seen.append(value)
                kept.append(value)
        others = {name: rule for name, rule in choice.items() if name not in ("const", "enum")}
        found.append({**others, "enum": kept} if kept else {"not": {}})
    return found
