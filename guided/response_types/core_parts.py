"""What pydantic's core schemas are made of, each part with its step in a dotted path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["joined", "parts", "place_of"]


def parts(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The core schemas inside another, as JSON is read.

    A step is the name of a field, ``[]`` for items, ``{}`` for values, ``{key}`` for keys, and
    empty for what stands at the same place.
    """
    match schema["type"]:
        case "model-fields" | "typed-dict":
            for name, field in schema["fields"].items():
                yield field["schema"], name
            if "extras_schema" in schema:
                yield schema["extras_schema"], "{}"
        case "dataclass-args" | "named-tuple":
            for field in schema["fields"]:
                yield field["schema"], field["name"]
        case "arguments" | "arguments-v3":
            for argument in schema["arguments_schema"]:
                yield argument["schema"], argument["name"]
        case "call":
            yield schema["arguments_schema"], ""
        case "tuple":
            for index, item in enumerate(schema["items_schema"]):
                yield item, f"[{index}]"
        case "union":
            for choice in schema["choices"]:
                yield (choice[0] if isinstance(choice, tuple) else choice), ""
        case "tagged-union":
            for choice in schema["choices"].values():
                yield choice, ""
        case "chain":
            for step in schema["steps"]:
                yield step, ""
        case "json-or-python":
            yield schema["json_schema"], ""
        case "lax-or-strict":
            yield schema["strict_schema" if schema.get("strict") else "lax_schema"], ""
        case _:
            for name, step in (
                ("schema", ""),
                ("items_schema", "[]"),
                ("keys_schema", "{key}"),
                ("values_schema", "{}"),
            ):
                if isinstance(schema.get(name), Mapping):
                    yield schema[name], step


def joined(place: str, step: str) -> str:
    """``a`` and ``b`` -> ``a.b``, ``a`` and ``[]`` -> ``a[]``"""
    if not step or not place:
        return place + step
    return f"{place}{step}" if step[0] in "[{" else f"{place}.{step}"


def place_of(trail: Sequence[Mapping[str, Any]]) -> str:
    """The dotted path to the last of these core schemas, each of which holds the next one.

    Where a type refers to another one by name, the path begins at that.
    """
    place = ""
    for index, schema in enumerate(trail):
        if schema["type"] == "definitions":
            place = ""
        following = [id(other) for other in trail[index + 1 : index + 3]]
        steps = [step for part, step in _parts_of(schema) if id(part) in following]
        place = joined(place, steps[0] if steps else "")
    return place


def _parts_of(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    # Fields are a level of their own there, with a schema but no name.
    return iter(()) if schema["type"].endswith("-field") else parts(schema)
