"""Finds the types that values of a schema may have, as far as the schema states them directly."""

from __future__ import annotations

from typing import Any, Final

from guided.spec.references import at_pointer, escaped, pointer_of
from guided.spec.schema_shape import TYPES, misshapen

__all__ = ["SaidTypes", "types_of_value"]

_DEEPEST: Final = 200
"""The deepest nesting of schemas that is followed, including references."""


class _TooDeepError(Exception):
    """Schemas are nested more deeply than is followed."""


class SaidTypes:
    """Reads each place of a schema once.

    Only ``type``, ``enum``, ``const``, ``allOf``, ``anyOf``, ``oneOf`` and references within the
    schema count. Places with an invalid keyword, which the compiler refuses, and very deep places
    count as unrestricted.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, frozenset[str]] = {}
        """Types by pointer; a place that is being read counts as having none."""
        self._open: list[str] = []
        """The places that are being read."""
        self.circular: set[str] = set()
        """Places read that refer to themselves, whose types are unknown."""

    def of_property(self, name: str) -> frozenset[str]:
        """Return the types of a member of an object."""
        return self.of(f"/properties/{escaped(name)}")

    def of(self, pointer: str) -> frozenset[str]:
        """Return the types of the values of a place."""
        try:
            return self._of(pointer, 0)
        except _TooDeepError:
            # The places being read stay unknown, and may be found from another place.
            for open_one in self._open:
                del self._known[open_one]
            self._open.clear()
            return TYPES

    def _of(self, pointer: str, depth: int) -> frozenset[str]:
        if depth > _DEEPEST:
            raise _TooDeepError
        if pointer not in self._known:
            self._known[pointer] = frozenset()
            self._open.append(pointer)
            self._known[pointer] = self._found(pointer, depth)
            self._open.pop()
        elif pointer in self._open:
            self.circular.add(pointer)
        return self._known[pointer]

    def _found(self, pointer: str, depth: int) -> frozenset[str]:
        told, types = at_pointer(self._root, pointer), TYPES
        if told is False:
            return frozenset()
        if not isinstance(told, dict) or misshapen(told):
            return types
        if "type" in told:
            types &= _with_integers(
                {told["type"]} if isinstance(told["type"], str) else told["type"]
            )
        if "enum" in told or "const" in told:
            values = told["enum"] if "enum" in told else [told["const"]]
            types &= {kind for value in values for kind in types_of_value(value)}
        target = pointer_of(told.get("$ref"))
        if target is not None and at_pointer(self._root, target) is not None:
            types &= self._of(target, depth + 1)
        for name in ("anyOf", "oneOf", "allOf"):
            if name in told:
                places = [f"{pointer}/{name}/{at}" for at in range(len(told[name]))]
                found = [self._of(at, depth + 1) for at in places]
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
        case int() | float():
            return frozenset({"integer", "number"})
        case str():
            return frozenset({"string"})
        case dict():
            return frozenset({"object"})
    return frozenset({"array"})
