"""Narrowing a schema beside what it says already."""

from __future__ import annotations

from pydantic.json_schema import JsonSchemaValue

__all__ = ["narrow"]


def narrow(schema: JsonSchemaValue, narrower: JsonSchemaValue) -> None:
    """Narrow a schema in place, beside what it says already."""
    if all(schema.get(keyword) == value for keyword, value in narrower.items()):
        return
    if not schema.keys() & narrower.keys():
        schema.update(narrower)
        return
    others = schema.setdefault("allOf", [])
    if narrower not in others:
        others.append(dict(narrower))
