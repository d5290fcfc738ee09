"""Which members of an object are strings alone, as far as its schema says so outright."""

from __future__ import annotations

from typing import Any, Final

from guided.spec.references import target_of

__all__ = ["text_properties"]

_DEEPEST: Final = 50
"""Schemas looked into inside of one another, references followed among them."""


def text_properties(schema: dict[str, Any]) -> frozenset[str]:
    """The names of an object's properties that may be nothing but strings.

    A property that says so by other keywords, or through references to anything but a place in the
    schema (``#/$defs/City``), is not among them.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return frozenset()
    search = _Search(schema)
    return frozenset(name for name, told in properties.items() if search.is_text(told, 0))


class _Search:
    """Looks at each schema that a reference leads to once."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._known: dict[str, bool] = {}
        """By reference; while it is followed, it says nothing."""

    def is_text(self, schema: object, depth: int) -> bool:
        """Whether only strings fit a schema."""
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return False
        listed = schema["enum"] if "enum" in schema else [schema.get("const")]
        return (
            schema.get("type") in ("string", ["string"])
            or (isinstance(listed, list) and all(isinstance(value, str) for value in listed))
            or self._leads_to_text(schema.get("$ref"), depth)
            or any(self._each(schema.get("allOf"), depth))
            or _all(self._each(schema.get("anyOf"), depth))
            or _all(self._each(schema.get("oneOf"), depth))
        )

    def _each(self, schemas: object, depth: int) -> list[bool]:
        if not isinstance(schemas, list):
            return []
        return [self.is_text(schema, depth + 1) for schema in schemas]

    def _leads_to_text(self, reference: object, depth: int) -> bool:
        if not isinstance(reference, str):
            return False
        if reference not in self._known:
            self._known[reference] = False
            self._known[reference] = self.is_text(target_of(self._root, reference), depth + 1)
        return self._known[reference]


def _all(held: list[bool]) -> bool:
    return bool(held) and all(held)
