"""Finds the types that values of a schema may have, from what the schema states directly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from guided.spec.references import at_pointer, escape_token, pointer_of
from guided.spec.schema_shape import TYPES, invalid_keyword

__all__ = ["DeclaredTypes", "types_of_value"]


class DeclaredTypes:
    """Returns the types of parts of a schema by pointer; reads each part once.

    Formats of tool calls ask it which arguments are written as text and which as words
    (``tool_members``, ``literal_schema``).

    Only ``type``, ``enum``, ``const``, ``allOf``, ``anyOf``, ``oneOf`` and references within the
    schema count. Parts with an invalid keyword, which the compiler refuses, and very deep parts
    count as unrestricted.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self._types_by_pointer: dict[str, frozenset[str]] = {}
        """Types by pointer; a part that is being read counts as having none.

        So where parts refer to themselves, types are too few, and depend on which part was asked
        for first.
        """
        self._in_progress: list[str] = []
        """Pointers of the parts that are being read."""
        self.circular: set[str] = set()
        """Pointers of parts that refer to themselves: schemas with any are to be refused."""

    def of_property(self, name: str) -> frozenset[str]:
        """Return the types of a member of an object."""
        return self.of(f"/properties/{escape_token(name)}")

    def of(self, pointer: str) -> frozenset[str]:
        """Return the types of the values at a pointer."""
        try:
            return self._of(pointer)
        except RecursionError:
            # The parts being read are forgotten: they may be read from another part.
            for unfinished in self._in_progress:
                del self._types_by_pointer[unfinished]
            self._in_progress.clear()
            return TYPES

    def _of(self, pointer: str) -> frozenset[str]:
        if pointer not in self._types_by_pointer:
            self._types_by_pointer[pointer] = frozenset()
            self._in_progress.append(pointer)
            self._types_by_pointer[pointer] = self._read(pointer)
            self._in_progress.pop()
        elif pointer in self._in_progress:
            self.circular.add(pointer)
        return self._types_by_pointer[pointer]

    def _read(self, pointer: str) -> frozenset[str]:
        schema, types = at_pointer(self._root, pointer), TYPES
        if schema is False:
            return frozenset()
        if not isinstance(schema, dict) or invalid_keyword(schema):
            return types
        if "type" in schema:
            types &= _with_integers(
                {schema["type"]} if isinstance(schema["type"], str) else schema["type"]
            )
        if "enum" in schema or "const" in schema:
            values = schema["enum"] if "enum" in schema else [schema["const"]]
            types &= {kind for value in values for kind in types_of_value(value)}
        target = pointer_of(schema.get("$ref"))
        if target is not None and at_pointer(self._root, target) is not None:
            types &= self._of(target)
        for name in ("anyOf", "oneOf", "allOf"):
            if name in schema:
                pointers = [f"{pointer}/{name}/{index}" for index in range(len(schema[name]))]
                found = [self._of(at) for at in pointers]
                joined = found[0].union if name != "allOf" else found[0].intersection
                types &= joined(*found)
        return types


def _with_integers(types: Any) -> set[str]:
    return {*types, *(["integer"] if "number" in types else [])}


def types_of_value(value: object) -> frozenset[str]:
    """Return the names of the types that a value has."""
    match value:
        case bool():
            return frozenset({"boolean"})
        case None:
            return frozenset({"null"})
        case int() | float() | Decimal():
            return frozenset({"integer", "number"})
        case str():
            return frozenset({"string"})
        case dict():
            return frozenset({"object"})
    return frozenset({"array"})
