"""Which values can be in a set: those of a type that has a hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guided.response_types.core_parts import parts

__all__ = ["has_hash"]

_WITHOUT = frozenset(
    {"any", "list", "set", "dict", "deque", "ordered-dict", "counter", "typed-dict", "generator"}
)


def has_hash(schema: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether every value of a core schema has one; ``definitions`` are those it may refer to.

    What a function of the user's makes is taken for what it was made of.
    """
    return _Hashes(definitions).has(schema)


class _Hashes:
    def __init__(self, definitions: Mapping[str, Mapping[str, Any]]) -> None:
        self.definitions = definitions
        self.entered: set[str] = set()

    def has(self, schema: Mapping[str, Any]) -> bool:
        kind = schema["type"]
        match kind:
            case _ if kind in _WITHOUT:
                return False
            case "definition-ref":
                return self._has_definition(schema["schema_ref"])
            case "frozenset":
                return True
            case "model" | "dataclass":
                owner = schema["cls"]
                return owner.__hash__ is not None and (
                    owner.__hash__ is object.__hash__ or self.has(schema["schema"])
                )
            case "json" if "schema" not in schema:
                return False
            case "chain":
                return self.has(schema["steps"][-1])
        return all(self.has(part) for part, _ in parts(schema))

    def _has_definition(self, name: str) -> bool:
        if name in self.entered:
            return True
        self.entered.add(name)
        return name not in self.definitions or self.has(self.definitions[name])
